/// Names of files in a bundle: one spelling, the same file on every system, never out of the folder.
enum Names {
  static let manifest: ExactText = "manifest.json"
  static let signature: ExactText = "model.sig"
  static let maxFiles = 4096
  static let maxPath = 400
  private static let devices: Set<String> = Set(
    ["con", "prn", "aux", "nul"] + (0...9).flatMap { ["com\($0)", "lpt\($0)"] })

  /// Whether a path means one file of the folder on every system: parts of ASCII letters, digits and `_.+-`, that begin with a
  /// letter or digit, do not end with a dot, and are not a device of Windows.
  static func isSafe(_ name: ExactText) -> Bool {
    name.utf8.count <= maxPath && name.parts.allSatisfy(isSafePart)
  }

  private static func isSafePart(_ part: ArraySlice<UInt8>) -> Bool {
    guard (1...200).contains(part.count), isLetterOrDigit(part.first!), part.last != UInt8(ascii: ".") else { return false }
    guard part.allSatisfy({ isLetterOrDigit($0) || "_.+-".utf8.contains($0) }) else { return false }
    let stem = part.prefix { $0 != UInt8(ascii: ".") }
    return !devices.contains(String(decoding: stem, as: UTF8.self).lowercased())
  }

  static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
  }

  /// Refuses names of which one is unsafe, or two are one file where case does not count.
  ///
  /// - Parameter names: the names, in the order in which they are judged.
  static func check(_ names: [ExactText]) throws {
    try need(names.count <= maxFiles + 2, .tooMany, "it has more than \(maxFiles) files")
    var known: [ExactText: ExactText] = [:]
    for name in names {
      try need(isSafe(name), .unsafeName, "it names an unsafe file \(name.string.prefix(80))")
      var prefix: [UInt8] = []
      for part in name.parts {
        prefix += prefix.isEmpty ? Array(part) : [UInt8(ascii: "/")] + part
        let own = ExactText(bytes: prefix)
        let other = known.updateValue(own, forKey: own.asciiLowered) ?? own
        try need(other == own, .collision, "\(own) and \(other) are one file where case does not count")
      }
    }
  }
}
