/// How many points the curve P-256 has: a prime.
private let order = bytes(hex: "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551")

/// r and s as 64 bytes, out of strict DER: minimal lengths, nothing after it, both from 1 to the order less 1.
///
/// Nothing for every other spelling.
func rawSignature(der bytes: [UInt8]) -> [UInt8]? {
  guard (8...72).contains(bytes.count), bytes[0] == 0x30, Int(bytes[1]) == bytes.count - 2 else { return nil }
  var raw: [UInt8] = []
  var at = 2
  for _ in 0..<2 {
    guard at + 2 < bytes.count, bytes[at] == 2 else { return nil }
    let length = Int(bytes[at + 1])
    guard length >= 1, at + 2 + length <= bytes.count else { return nil }
    var number = bytes[(at + 2)..<(at + 2 + length)]
    guard number.first! & 0x80 == 0 else { return nil }
    if number.first == 0 {
      number = number.dropFirst()
      guard let next = number.first, next & 0x80 != 0 else { return nil }
    }
    guard number.count <= 32 else { return nil }
    let padded = [UInt8](repeating: 0, count: 32 - number.count) + number
    guard padded.contains(where: { $0 != 0 }), padded.lexicographicallyPrecedes(order) else { return nil }
    raw += padded
    at += 2 + length
  }
  return at == bytes.count ? raw : nil
}

/// Base64 in the standard alphabet with padding, in the one spelling that encodes the bytes.
func strictBase64(_ text: [UInt8]) -> [UInt8]? {
  guard text.count % 4 == 0 else { return nil }
  let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  var places = [Int](repeating: -1, count: 256)
  for (place, letter) in alphabet.enumerated() { places[Int(letter)] = place }
  let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
  var found: [UInt8] = []
  found.reserveCapacity(text.count / 4 * 3)
  for start in stride(from: 0, to: text.count, by: 4) {
    let missing = start + 4 == text.count ? padding : 0
    var word = 0
    for place in 0..<4 {
      let value = place >= 4 - missing ? 0 : places[Int(text[start + place])]
      guard value >= 0 else { return nil }
      word = word << 6 | value
    }
    // Bits that no byte takes must be zero.
    guard missing == 0 || word & (missing == 1 ? 0xff : 0xffff) == 0 else { return nil }
    found += [UInt8(word >> 16), UInt8(word >> 8 & 255), UInt8(word & 255)].prefix(3 - missing)
  }
  return found
}

func base64(_ bytes: [UInt8]) -> String {
  let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  var found: [UInt8] = []
  for start in stride(from: 0, to: bytes.count, by: 3) {
    let part = Array(bytes[start..<min(start + 3, bytes.count)])
    let word = (0..<3).reduce(0) { $0 << 8 | Int($1 < part.count ? part[$1] : 0) }
    for place in 0..<4 {
      found.append(place <= part.count ? alphabet[word >> (18 - 6 * place) & 63] : UInt8(ascii: "="))
    }
  }
  return String(decoding: found, as: UTF8.self)
}
