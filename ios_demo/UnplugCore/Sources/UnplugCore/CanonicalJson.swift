/// RFC 8785: sorted keys, no spaces, numbers as ECMAScript writes them.
public func canonical(_ value: Json) -> [UInt8] {
  var found: [UInt8] = []
  write(value, to: &found)
  return found
}

private func write(_ value: Json, to out: inout [UInt8]) {
  switch value {
  case .null: out += "null".utf8
  case .bool(let flag): out += (flag ? "true" : "false").utf8
  case .number(let number): out += ecmaScript(number).utf8
  case .text(let text): write(text, to: &out)
  case .list(let items):
    out.append(UInt8(ascii: "["))
    for (place, item) in items.enumerated() {
      if place > 0 { out.append(UInt8(ascii: ",")) }
      write(item, to: &out)
    }
    out.append(UInt8(ascii: "]"))
  case .object(let fields):
    out.append(UInt8(ascii: "{"))
    // Keys are sorted by UTF-16 units, which differs from code points above U+FFFF.
    let sorted = fields.map { (Array($0.key.string.utf16), $0.key, $0.value) }.sorted { $0.0.lexicographicallyPrecedes($1.0) }
    for (place, (_, key, item)) in sorted.enumerated() {
      if place > 0 { out.append(UInt8(ascii: ",")) }
      write(key, to: &out)
      out.append(UInt8(ascii: ":"))
      write(item, to: &out)
    }
    out.append(UInt8(ascii: "}"))
  }
}

private func write(_ text: ExactText, to out: inout [UInt8]) {
  let short: [UInt8: Character] = [0x08: "b", 0x09: "t", 0x0a: "n", 0x0c: "f", 0x0d: "r", 0x22: "\"", 0x5c: "\\"]
  let digits = Array("0123456789abcdef".utf8)
  out.append(UInt8(ascii: "\""))
  for byte in text.utf8 {
    if let letter = short[byte] {
      out += "\\\(letter)".utf8
    } else if byte < 0x20 {
      out += "\\u00".utf8
      out += [digits[Int(byte >> 4)], digits[Int(byte & 15)]]
    } else {
      out.append(byte)
    }
  }
  out.append(UInt8(ascii: "\""))
}

/// A number as ECMAScript's `Number::toString` has it: the shortest digits that read back, with an exponent from 1e21 on and
/// below 1e-6.
func ecmaScript(_ number: Double) -> String {
  if number == 0 { return "0" }
  let sign = number < 0 ? "-" : ""
  // Swift's description has the same shortest digits in another layout: "1e-07", "5e-324", "123456.0".
  let parts = "\(abs(number))".split(separator: "e")
  let mantissa = parts[0].split(separator: ".")
  let fraction = mantissa.count > 1 && mantissa[1] != "0" ? String(mantissa[1]) : ""
  var digits = String(mantissa[0]) + fraction
  var point = mantissa[0].count + (parts.count > 1 ? Int(parts[1])! : 0)
  while digits.hasPrefix("0") {
    digits.removeFirst()
    point -= 1
  }
  while digits.hasSuffix("0") { digits.removeLast() }
  return sign + laidOut(digits, point: point)
}

/// Digits with the decimal point after `point` of them.
private func laidOut(_ digits: String, point: Int) -> String {
  let count = digits.count
  if (count...21).contains(point) { return digits + String(repeating: "0", count: point - count) }
  if point > 0, point <= 21 { return "\(digits.prefix(point)).\(digits.dropFirst(point))" }
  if point > -6, point <= 0 { return "0." + String(repeating: "0", count: -point) + digits }
  let exponent = point - 1
  let tail = count == 1 ? "" : ".\(digits.dropFirst())"
  return "\(digits.prefix(1))\(tail)e\(exponent < 0 ? "-" : "+")\(abs(exponent))"
}
