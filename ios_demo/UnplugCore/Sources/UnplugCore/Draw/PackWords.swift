import Foundation

/// Whether a prompt asks for a pack: its words switch it on, whole, in any case, in the singular or the plural; as
/// unplug.sdk.drawing.device.pack_words has it.
enum PackWords {
  typealias Word = [Unicode.Scalar]
  private static let plurals = ["ches", "shes", "sses", "xes", "zes"]

  /// The words of a text, folded: NFC, each character's own lower case, one sigma for both, English plurals as singulars.
  static func of(_ text: String) -> [Word] {
    var (found, run) = ([Word](), Word())
    let lowered = text.precomposedStringWithCanonicalMapping.unicodeScalars.flatMap { $0.properties.lowercaseMapping.unicodeScalars }
    for scalar in lowered + [" "] {
      if isLetterOrDigit(scalar) || (isMark(scalar) && !run.isEmpty) {
        run.append(scalar == "\u{3c2}" ? "\u{3c3}" : scalar)
      } else if !run.isEmpty, !isMark(scalar) {
        found.append(singular(run))
        run = []
      }
    }
    return found
  }

  private static func isLetterOrDigit(_ scalar: Unicode.Scalar) -> Bool { [.letter, .number].contains(Tokenizer.kind(scalar)) }

  private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
    [.nonspacingMark, .spacingMark, .enclosingMark].contains(scalar.properties.generalCategory)
  }

  private static func singular(_ word: Word) -> Word {
    func ends(_ with: String) -> Bool { word.suffix(with.count).elementsEqual(with.unicodeScalars) }
    if word.count <= 3 || !ends("s") || ends("ss") { return word }
    if ends("ies") { return word.dropLast(3) + ["y"] }
    return word.dropLast(plurals.contains(where: ends) ? 2 : 1)
  }

  /// Whether folded words stand in others, next to each other and in their order.
  static func stand(_ wanted: [Word], in read: [Word]) -> Bool {
    !wanted.isEmpty && read.indices.contains { read[$0...].starts(with: wanted) }
  }

  /// Whether a record may say so: some words with single spaces, not more or longer ones than a prompt would hold.
  static func hold(_ text: String) -> Bool {
    let scalars = Array(text.unicodeScalars)
    let parts = scalars.split(separator: " ", omittingEmptySubsequences: false)
    let plain = parts.allSatisfy { part in !part.isEmpty && !part.contains { Tokenizer.isWhite($0) || (0x1c...0x1f).contains($0.value) } }
    return plain && scalars.count <= 64 && (1...8).contains(of(text).count)
  }
}
