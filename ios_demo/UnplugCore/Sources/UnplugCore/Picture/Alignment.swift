import Foundation

/// Where the eyes of a face lie in what a model sees.
public struct Frame: Equatable, Sendable {
  /// Middles of the eyes, left and right as the picture shows them, in 0 to 1 of the side.
  public let left: SIMD2<Double>
  public let right: SIMD2<Double>
  /// Pixels between the eyes of a photograph below which a face is too small to be judged.
  public let leastEyes: Double
  /// Mean luma of the aligned face, 0 to 255, below which it is too dark.
  public let leastLight: Double

  /// - Throws: `Failure` where the eyes lie outside, or nowhere apart.
  public init(
    left: SIMD2<Double> = SIMD2(0.3045, 0.3037), right: SIMD2<Double> = SIMD2(0.6831, 0.3037), leastEyes: Double = 16,
    leastLight: Double = 24
  ) throws {
    let inside = [left.x, left.y, right.x, right.y].allSatisfy { $0 >= 0 && $0 <= 1 }
    guard inside, distance(left, right) >= 0.05 else {
      throw Failure("The frame", "its eyes do not frame a face", "Give both in 0 to 1, apart")
    }
    (self.left, self.right, self.leastEyes, self.leastLight) = (left, right, leastEyes, leastLight)
  }
}

/// Middles of a face's eyes in pixels of a picture, left and right as it shows them.
public struct Eyes: Equatable, Sendable {
  public let left: SIMD2<Double>
  public let right: SIMD2<Double>

  public init(left: SIMD2<Double>, right: SIMD2<Double>) { (self.left, self.right) = (left, right) }

  /// Finds the middles from the outlines of two eyes, in either order: halfway between the corners of each, its two points that are farthest apart.
  init?(outlines: [[SIMD2<Double>]]) {
    let middles = outlines.compactMap { points -> SIMD2<Double>? in
      let pairs = points.indices.flatMap { one in points[one...].map { (points[one], $0) } }
      return pairs.max { distance($0.0, $0.1) < distance($1.0, $1.1) }.map { ($0.0 + $0.1) / 2 }
    }
    guard middles.count == 2 else { return nil }
    self = middles[0].x <= middles[1].x ? Eyes(left: middles[0], right: middles[1]) : Eyes(left: middles[1], right: middles[0])
  }
}

extension Frame {
  /// The frame in a manifest's `preprocessing`; nothing where it says nothing of eyes.
  ///
  /// - Throws: `Failure` where what it says does not frame a face.
  public init?(preprocessing: Json?) throws {
    guard let said = preprocessing?["eyes"] else { return nil }
    let eyes = (said.list ?? []).map { eye in (eye.list ?? []).map { $0.double ?? .nan } }
    func least(_ name: ExactText, _ usual: Double) -> Double { preprocessing?[name].map { $0.double ?? .nan } ?? usual }
    let (leastEyes, leastLight) = (least("least_eyes", 16), least("least_light", 24))
    guard eyes.count == 2, eyes.allSatisfy({ $0.count == 2 }), leastEyes.isFinite, leastLight.isFinite else {
      throw Failure("The bundle", "its preprocessing does not frame a face", "Get another release")
    }
    try self.init(
      left: SIMD2(eyes[0][0], eyes[0][1]), right: SIMD2(eyes[1][0], eyes[1][1]), leastEyes: leastEyes, leastLight: leastLight)
  }
}

private let mostSteps = 16.0

private func distance(_ one: SIMD2<Double>, _ other: SIMD2<Double>) -> Double {
  let apart = other - one
  return (apart.x * apart.x + apart.y * apart.y).squareRoot()
}

extension Picture {
  /// A face turned, scaled and moved until its eyes lie in their places, byte for byte as unplug.sdk.drawing.inference does.
  ///
  /// - Parameters:
  ///   - left: the middle of the eye on the left, in pixels of the picture; pixel i covers [i, i + 1).
  ///   - size: the side of the result in pixels.
  /// - Throws: `Failure` where the eyes are in the same place.
  public func aligned(left: SIMD2<Double>, right: SIMD2<Double>, size: Int, frame: Frame) throws -> Picture {
    let (leftX, leftY) = (frame.left.x * Double(size), frame.left.y * Double(size))
    let (across, down) = (frame.right.x * Double(size) - leftX, frame.right.y * Double(size) - leftY)
    let (wide, high) = (right.x - left.x, right.y - left.y)
    let whole = across * across + down * down
    let (real, imaginary) = ((wide * across + high * down) / whole, (high * across - wide * down) / whole)
    let scale = (real * real + imaginary * imaginary).squareRoot()
    guard scale > 0, scale < 1e6 else {
      throw Failure("The face", "its eyes are in the same place", "Give a picture of one face from the front")
    }
    let steps = min(mostSteps, scale.rounded(.up))
    let shiftX = left.x - (real * leftX - imaginary * leftY)
    let shiftY = left.y - (imaginary * leftX + real * leftY)
    var made = [UInt8](repeating: 0, count: 3 * size * size)
    for at in 0..<size * size {
      var total = SIMD3<Double>()
      for row in 0..<Int(steps) {
        let y = Double(at / size) + (Double(row) + 0.5) / steps
        for column in 0..<Int(steps) {
          let x = Double(at % size) + (Double(column) + 0.5) / steps
          let (atX, atY) = (real * x - imaginary * y + shiftX - 0.5, imaginary * x + real * y + shiftY - 0.5)
          total += bilinear(atX, atY)
        }
      }
      for channel in 0..<3 { made[3 * at + channel] = UInt8((total[channel] / (steps * steps) + 0.5).rounded(.down)) }
    }
    return Picture(width: size, height: size, rgb: made)
  }

  private func bilinear(_ atX: Double, _ atY: Double) -> SIMD3<Double> {
    let x = min(max(atX, 0), Double(width - 1))
    let y = min(max(atY, 0), Double(height - 1))
    let (left, top) = (Int(x), Int(y))
    let (right, below) = (min(left + 1, width - 1), min(top + 1, height - 1))
    let (across, down) = (x - Double(left), y - Double(top))
    var made = SIMD3<Double>()
    for channel in 0..<3 {
      func read(_ column: Int, _ row: Int) -> Double { Double(rgb[3 * (row * width + column) + channel]) }
      let upper = read(left, top) * (1 - across) + read(right, top) * across
      let lower = read(left, below) * (1 - across) + read(right, below) * across
      made[channel] = upper * (1 - down) + lower * down
    }
    return made
  }

  /// Mean luma, 0 to 255.
  public var light: Double {
    var sum = 0
    for at in stride(from: 0, to: rgb.count, by: 3) { sum += 299 * Int(rgb[at]) + 587 * Int(rgb[at + 1]) + 114 * Int(rgb[at + 2]) }
    return Double(sum) / Double(1000 * width * height)
  }
}

extension Picture {
  /// The one face of a photograph in its frame.
  ///
  /// - Parameter faces: all that were found.
  /// - Throws: `Failure` where it cannot be judged: no face, several, one without eyes, too small or too dark.
  func onlyFace(_ faces: [FoundFace], size: Int, frame: Frame) throws -> Picture {
    func unjudged(_ why: String) -> Failure { Failure("The photograph", why, "Choose one of a single face, near and well lit") }
    if faces.count == 1, faces[0].eyes == nil { throw unjudged("the eyes of its face were not found") }
    let eyes = faces.count == 1 ? faces[0].eyes! : Eyes(left: SIMD2(0, 0), right: SIMD2(1, 0))
    let made = try aligned(left: eyes.left, right: eyes.right, size: size, frame: frame)
    let problem = Face.problem(faces: faces.count, left: eyes.left, right: eyes.right, aligned: made, frame: frame)
    if let problem { throw unjudged(problem) }
    return made
  }
}

extension Face {
  /// Why a photograph cannot be judged, or nothing: no face, several, too small, or too dark, in this order.
  public static func problem(faces: Int, left: SIMD2<Double>, right: SIMD2<Double>, aligned: Picture, frame: Frame) -> String? {
    if faces != 1 { return faces < 1 ? "no face found" : "\(faces) faces found" }
    let apart = distance(left, right)
    if apart < frame.leastEyes {
      return "the face is too small: \(Int(apart)) pixels between the eyes, and \(ecmaScript(frame.leastEyes)) are needed"
    }
    return aligned.light < frame.leastLight ? "the face is too dark" : nil
  }
}
