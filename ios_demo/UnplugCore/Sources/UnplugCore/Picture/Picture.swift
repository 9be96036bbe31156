/// A picture of 8 bits a channel in RGB, row by row.
public struct Picture: Equatable, Sendable {
  public let width: Int
  public let height: Int
  public internal(set) var rgb: [UInt8]

  /// - Parameter rgb: three bytes a pixel.
  public init(width: Int, height: Int, rgb: [UInt8]) {
    precondition(rgb.count == 3 * width * height, "a picture of \(width) x \(height) has three bytes a pixel")
    (self.width, self.height, self.rgb) = (width, height, rgb)
  }

  /// Whether all pixels are of one colour: such a condition steers nowhere.
  public var isEmpty: Bool { rgb.indices.allSatisfy { rgb[$0] == rgb[$0 % 3] } }
}
