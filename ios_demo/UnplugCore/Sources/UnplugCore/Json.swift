import Foundation

/// A JSON value, with texts that are compared byte by byte.
public indirect enum Json: Equatable, Sendable {
  case null
  case bool(Bool)
  case number(Double)
  case text(ExactText)
  case list([Json])
  case object([ExactText: Json])

  public subscript(key: ExactText) -> Json? {
    if case .object(let fields) = self { fields[key] } else { nil }
  }

  public var object: [ExactText: Json]? { if case .object(let fields) = self { fields } else { nil } }
  public var list: [Json]? { if case .list(let items) = self { items } else { nil } }
  public var text: ExactText? { if case .text(let text) = self { text } else { nil } }
  public var string: String? { text?.string }
  public var double: Double? { if case .number(let number) = self { number } else { nil } }
  public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

  /// A whole number within 2^53 - 1.
  public var int: Int? {
    guard let number = double, number == number.rounded(), abs(number) <= Json.largest else { return nil }
    return Int(number)
  }

  /// Whether it is an object of just these fields.
  func hasKeys(_ required: Set<ExactText>, optional: Set<ExactText> = []) -> Bool {
    guard let fields = object else { return false }
    return required.isSubset(of: fields.keys) && fields.keys.allSatisfy { required.contains($0) || optional.contains($0) }
  }

  static let largest = 9_007_199_254_740_991.0
  static let maxDepth = 64
}

/// Strict JSON: no key twice, numbers that a double keeps, no half of a character, at most 64 levels deep.
///
/// - Throws: `Failure` where it is none.
public func strictJson(_ data: some Collection<UInt8>) throws -> Json {
  try JsonParser.parse(Array(data), strict: true)
}

/// JSON as other programs write it: of numbers that are beyond a double's whole ones the nearest is taken.
public func looseJson(_ data: some Collection<UInt8>) throws -> Json {
  try JsonParser.parse(Array(data), strict: false)
}

private struct JsonParser {
  let bytes: [UInt8]
  let strict: Bool
  var at = 0

  static func parse(_ bytes: [UInt8], strict: Bool) throws -> Json {
    guard ExactText(utf8: bytes) != nil else { throw Failure("JSON", "it is not UTF-8") }
    var parser = JsonParser(bytes: bytes, strict: strict)
    let value = try parser.value(depth: 0)
    parser.skipSpace()
    guard parser.at == bytes.count else { throw parser.wrong("something follows its end") }
    return value
  }

  func wrong(_ why: String) -> Failure { Failure("JSON", "\(why) (byte \(at))") }
  var next: UInt8? { at < bytes.count ? bytes[at] : nil }

  mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { at += 1 }
  }

  mutating func take(_ byte: UInt8) -> Bool {
    guard next == byte else { return false }
    at += 1
    return true
  }

  mutating func word(_ text: String, _ value: Json) throws -> Json {
    guard bytes[at...].starts(with: text.utf8) else { throw wrong("a word that JSON does not have") }
    at += text.utf8.count
    return value
  }

  mutating func value(depth: Int) throws -> Json {
    skipSpace()
    switch next {
    case UInt8(ascii: "{"): return try object(depth: depth + 1)
    case UInt8(ascii: "["): return try list(depth: depth + 1)
    case UInt8(ascii: "\""): return .text(try string())
    case UInt8(ascii: "t"): return try word("true", .bool(true))
    case UInt8(ascii: "f"): return try word("false", .bool(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    default: return try number()
    }
  }

  mutating func object(depth: Int) throws -> Json {
    guard depth <= Json.maxDepth else { throw wrong("nested more than \(Json.maxDepth) deep") }
    at += 1
    var fields: [ExactText: Json] = [:]
    skipSpace()
    if take(UInt8(ascii: "}")) { return .object(fields) }
    repeat {
      skipSpace()
      guard next == UInt8(ascii: "\"") else { throw wrong("a key is missing") }
      let key = try string()
      skipSpace()
      guard take(UInt8(ascii: ":")) else { throw wrong("a colon is missing") }
      let item = try value(depth: depth)
      guard fields.updateValue(item, forKey: key) == nil else { throw wrong("it has a key twice") }
      skipSpace()
    } while take(UInt8(ascii: ","))
    guard take(UInt8(ascii: "}")) else { throw wrong("an object does not end") }
    return .object(fields)
  }

  mutating func list(depth: Int) throws -> Json {
    guard depth <= Json.maxDepth else { throw wrong("nested more than \(Json.maxDepth) deep") }
    at += 1
    var items: [Json] = []
    skipSpace()
    if take(UInt8(ascii: "]")) { return .list(items) }
    repeat {
      items.append(try value(depth: depth))
      skipSpace()
    } while take(UInt8(ascii: ","))
    guard take(UInt8(ascii: "]")) else { throw wrong("a list does not end") }
    return .list(items)
  }

  mutating func string() throws -> ExactText {
    at += 1
    var found: [UInt8] = []
    while let byte = next {
      at += 1
      switch byte {
      case UInt8(ascii: "\""): return ExactText(bytes: found)
      case 0..<0x20: throw wrong("a text holds a control character")
      case UInt8(ascii: "\\"): found += try escape()
      default: found.append(byte)
      }
    }
    throw wrong("a text does not end")
  }

  mutating func escape() throws -> [UInt8] {
    guard let byte = next else { throw wrong("a text does not end") }
    at += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [byte]
    case UInt8(ascii: "b"): return [0x08]
    case UInt8(ascii: "f"): return [0x0c]
    case UInt8(ascii: "n"): return [0x0a]
    case UInt8(ascii: "r"): return [0x0d]
    case UInt8(ascii: "t"): return [0x09]
    case UInt8(ascii: "u"): return try character()
    default: throw wrong("an escape that JSON does not have")
    }
  }

  mutating func character() throws -> [UInt8] {
    var code = try fourDigits()
    if (0xd800..<0xdc00).contains(code), take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) {
      let low = try fourDigits()
      guard (0xdc00..<0xe000).contains(low) else { throw wrong("half a character") }
      code = 0x10000 + (code - 0xd800) << 10 + (low - 0xdc00)
    }
    guard let scalar = Unicode.Scalar(code) else { throw wrong("half a character") }
    return Array(String(Character(scalar)).utf8)
  }

  mutating func fourDigits() throws -> UInt32 {
    guard at + 4 <= bytes.count else { throw wrong("an escape that is cut off") }
    var code: UInt32 = 0
    for byte in bytes[at..<at + 4] {
      guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80 else { throw wrong("an escape that is not a number") }
      code = code << 4 | UInt32(digit)
    }
    at += 4
    return code
  }

  mutating func digits() -> Int {
    let start = at
    while let byte = next, (0x30...0x39).contains(byte) { at += 1 }
    return at - start
  }

  mutating func number() throws -> Json {
    let start = at
    _ = take(UInt8(ascii: "-"))
    let leading = next
    let whole = digits()
    guard whole > 0, whole == 1 || leading != UInt8(ascii: "0") else { throw wrong("a value that JSON does not have") }
    if take(UInt8(ascii: ".")), digits() == 0 { throw wrong("a number that is cut off") }
    if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
      if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
      if digits() == 0 { throw wrong("a number that is cut off") }
    }
    guard let found = Double(String(decoding: bytes[start..<at], as: UTF8.self)), found.isFinite else {
      throw wrong("a number that a double does not keep")
    }
    if strict, abs(found) > Json.largest { throw wrong("a number that a double does not keep") }
    return .number(found)
  }
}
