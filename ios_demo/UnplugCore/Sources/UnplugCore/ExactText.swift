/// A text that is equal to another only where their bytes are.
///
/// Swift's `String` compares by canonical equivalence: "ä" in one character and in two are equal, and so are the Kelvin sign and
/// "K". Two files, or two keys of a JSON object, may differ in just that. Order is that of code points, as Python sorts.
public struct ExactText: Hashable, Comparable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  public let utf8: [UInt8]

  public init(_ text: String) { utf8 = Array(text.utf8) }
  public init(stringLiteral text: String) { self.init(text) }

  /// Bytes that are UTF-8 in the one spelling, or nothing.
  public init?(utf8 bytes: some Sequence<UInt8>) {
    let bytes = Array(bytes)
    guard Array(String(decoding: bytes, as: UTF8.self).utf8) == bytes else { return nil }
    utf8 = bytes
  }

  public var string: String { String(decoding: utf8, as: UTF8.self) }
  public var description: String { string }
  public static func < (one: Self, other: Self) -> Bool { one.utf8.lexicographicallyPrecedes(other.utf8) }

  /// With the letters A to Z in lower case.
  var asciiLowered: Self { Self(bytes: utf8.map { (65...90).contains($0) ? $0 + 32 : $0 }) }

  /// The parts between slashes; none is left out, so that an empty part is seen.
  var parts: [ArraySlice<UInt8>] { utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) }

  func hasPrefix(_ text: String) -> Bool { utf8.starts(with: text.utf8) }

  init(bytes: some Sequence<UInt8>) { utf8 = Array(bytes) }
}
