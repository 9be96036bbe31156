import Foundation

/// A prompt as a base reads it.
public struct Encoded: Equatable, Sendable {
  public let ids: [Int32]
  /// How many tokens the whole prompt has, start and end included; those beyond `ids` were cut.
  public let tokens: Int
  /// Words that are not tokens of their own: the base spells them, and may never have seen them.
  public let spelled: [String]

  public var cut: Bool { tokens > ids.count }
}

/// CLIP's tokenizer from a vocabulary and merges as data; Python's tokenizer.py is the reference.
public struct Tokenizer: Sendable {
  public static let maxCharacters = 1 << 16
  private static let wordEnd = "</w>"

  public let length: Int
  let vocabulary: Int
  private let ids: [ExactText: Int]
  /// By a pair of ids: how urgent its merge is, and what it becomes.
  private let merges: [UInt64: (rank: Int, id: Int)]
  private let letters: [Int]
  private let lastLetters: [Int]
  /// Finders of the tokens that are looked for in a text as it is, and in its normalized rest.
  private let cutters: (first: Cutter, later: Cutter)
  private let (start, end, padding): (Int, Int, Int)

  /// - Throws: `Failure` unless every text has ids: the data may come from anybody.
  public init(_ data: Json?) throws {
    func wrong(_ what: String) -> Failure { Failure("pipeline.json", "its tokenizer has \(what)", "Export the base again") }
    guard let tokens = data?["vocabulary"]?.list?.map({ $0.text }), let pairs = data?["merges"]?.list?.map({ $0.text }),
      let length = data?["length"]?.int, let start = data?["start"]?.int, let end = data?["end"]?.int,
      let padding = data?["padding"]?.int
    else { throw wrong("no vocabulary, merges, length or marks") }
    guard (1...(1 << 20)).contains(tokens.count) else { throw wrong("a vocabulary of \(tokens.count) tokens") }
    guard (3...1024).contains(length) else { throw wrong("prompts of \(length) tokens") }
    guard [start, end, padding].allSatisfy(tokens.indices.contains) else { throw wrong("a mark outside of its vocabulary") }
    var ids: [ExactText: Int] = [:]
    for (id, token) in tokens.enumerated() {
      guard let token, ids.updateValue(id, forKey: token) == nil else { throw wrong("a token twice") }
    }
    let letters = Tokenizer.byteLetters.map { ids[ExactText($0)] }
    let lastLetters = Tokenizer.byteLetters.map { ids[ExactText($0 + Tokenizer.wordEnd)] }
    guard !letters.contains(nil), !lastLetters.contains(nil) else { throw wrong("no token for some of the bytes") }
    var merges: [UInt64: (rank: Int, id: Int)] = [:]
    for (rank, pair) in pairs.enumerated() {
      let parts = pair.map { $0.utf8.split(separator: 0x20, omittingEmptySubsequences: false).map { ExactText(bytes: $0) } } ?? []
      guard parts.count == 2, let left = ids[parts[0]], let right = ids[parts[1]],
        let both = ids[ExactText(bytes: parts[0].utf8 + parts[1].utf8)]
      else { throw wrong("a merge that is not two tokens which make a third") }
      merges[Tokenizer.key(left, right)] = (rank, both)
    }
    (self.length, self.start, self.end, self.padding) = (length, start, end, padding)
    (self.ids, self.merges, vocabulary) = (ids, merges, tokens.count)
    self.letters = letters.map { $0! }
    self.lastLetters = lastLetters.map { $0! }
    let listed = try data?["added"].map { try AddedToken.list($0, within: tokens.count) } ?? []
    let added = listed.isEmpty ? Set([start, end]).map { AddedToken(id: $0) } : listed
    cutters = (Cutter(added.filter { !$0.normalized }, tokens), Cutter(added.filter(\.normalized), tokens))
    guard cutters.first.count + cutters.later.count == added.count else { throw wrong("added tokens that are empty or alike") }
  }

  private static func key(_ left: Int, _ right: Int) -> UInt64 { UInt64(left) << 32 | UInt64(right) }

  /// - Throws: `Failure` for more than 65,536 characters.
  public func encode(_ text: String) throws -> Encoded {
    guard text.unicodeScalars.count <= Tokenizer.maxCharacters else {
      throw Failure("The prompt", "it has more than \(Tokenizer.maxCharacters) characters", "Give a shorter one")
    }
    var (found, spelled) = ([Int](), [String]())
    for part in parts(text) {
      switch part {
      case .token(let token): found.append(token.id)
      case .text(let scalars):
        for word in words(of: scalars) {
          let tokens = merged(word)
          if tokens.count > 1, !spelled.contains(word) { spelled.append(word) }
          found += tokens
        }
      }
    }
    let kept = [start] + found.prefix(length - 2) + [end]
    let whole = kept + [Int](repeating: padding, count: length - kept.count)
    return Encoded(ids: whole.map(Int32.init), tokens: found.count + 2, spelled: spelled)
  }

  /// Added tokens, and normalized text between them: first those of the text as it is, then those of the rest.
  private func parts(_ text: String) -> [TextPart] {
    cutters.first.cut(Array(text.unicodeScalars)).flatMap { part in
      guard case .text(let scalars) = part else { return [part] }
      return cutters.later.cut(Tokenizer.normalize(scalars))
    }
  }

  /// Again and again the most urgent pair becomes one, wherever it stands.
  private func merged(_ word: String) -> [Int] {
    let bytes = Array(word.utf8)
    var parts = bytes.dropLast().map { letters[Int($0)] } + [lastLetters[Int(bytes.last!)]]
    while true {
      var best: (rank: Int, id: Int, left: Int, right: Int)?
      for (left, right) in zip(parts, parts.dropFirst()) {
        if let merge = merges[Tokenizer.key(left, right)], merge.rank < best?.rank ?? Int.max {
          best = (merge.rank, merge.id, left, right)
        }
      }
      guard let best else { return parts }
      var (next, at) = ([Int](), 0)
      while at < parts.count {
        let both = parts[at] == best.left && at + 1 < parts.count && parts[at + 1] == best.right
        next.append(both ? best.id : parts[at])
        at += both ? 2 : 1
      }
      parts = next
    }
  }

  /// GPT-2's letter of each byte: printable ones stand for themselves, the others for U+0100 and on.
  private static let byteLetters: [String] = {
    var next: UInt32 = 0x100
    return (UInt32(0)..<256).map { byte in
      let printable = (0x21...0x7e).contains(byte) || (0xa1...0xac).contains(byte) || byte >= 0xae
      defer { next += printable ? 0 : 1 }
      return String(Character(Unicode.Scalar(printable ? byte : next)!))
    }
  }()

  // Words

  enum Kind { case white, letter, number, other }

  /// Unicode's property White_Space, written out.
  static func isWhite(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x09...0x0d, 0x20, 0x85, 0xa0, 0x1680, 0x2000...0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000: true
    default: false
    }
  }

  static func kind(_ scalar: Unicode.Scalar) -> Kind {
    if isWhite(scalar) { return .white }
    switch scalar.properties.generalCategory {
    case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: return .letter
    case .decimalNumber, .letterNumber, .otherNumber: return .number
    default: return .other
    }
  }

  private static let endings = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"].map { Array($0.unicodeScalars) }

  /// NFC, runs of white space as one space, each character in lower case by itself.
  fileprivate static func normalize(_ scalars: [Unicode.Scalar]) -> [Unicode.Scalar] {
    let composed = text(scalars[...]).precomposedStringWithCanonicalMapping
    var found: [Unicode.Scalar] = []
    for scalar in composed.unicodeScalars {
      if !isWhite(scalar) {
        found += scalar.properties.lowercaseMapping.unicodeScalars
      } else if found.last != " " {
        found.append(" ")
      }
    }
    return found
  }

  private static func text(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
    var view = String.UnicodeScalarView()
    view.append(contentsOf: scalars)
    return String(view)
  }

  private static let marks = ["startoftext", "endoftext"].map { ["<|", $0, "|>"] }

  /// The words of a normalized text, cut at each place by the first rule that fits: an English ending, a mark's three words, a run of
  /// letters, one number, a run of anything else.
  private func words(of scalars: [Unicode.Scalar]) -> [String] {
    var (found, at) = ([String](), 0)
    while at < scalars.count {
      let kind = Tokenizer.kind(scalars[at])
      var end = at + 1
      if let ending = Tokenizer.endings.first(where: { scalars[at...].starts(with: $0) }) {
        end = at + ending.count
      } else if scalars[at] == "<", let mark = Tokenizer.marks.first(where: { scalars[at...].starts(with: $0.joined().unicodeScalars) }) {
        found += mark
        at += mark.joined().unicodeScalars.count
        continue
      } else if kind == .letter || kind == .other {
        while end < scalars.count, Tokenizer.kind(scalars[end]) == kind { end += 1 }
      }
      if kind != .white {
        found.append(Tokenizer.text(scalars[at..<end]))
      }
      at = end
    }
    return found
  }
}

/// A token that is cut out of a text whole, before its words are: a mark, or a word learned later.
private struct AddedToken {
  let id: Int
  /// It counts only where no letter, digit or underscore touches it.
  var singleWord = false
  /// White space in front of it, and after it, belongs to it.
  var lstrip = false
  var rstrip = false
  /// It is looked for, and read itself, in lower case.
  var normalized = false

  static func list(_ data: Json, within size: Int) throws -> [AddedToken] {
    let wrong = Failure("pipeline.json", "its tokenizer has added tokens of another kind", "Export the base again")
    guard let items = data.list, items.count <= 1024 else { throw wrong }
    return try items.map { item in
      let flags = ["single_word", "lstrip", "rstrip", "normalized"].map { item[ExactText($0)]?.bool }
      guard let id = item["id"]?.int, (0..<size).contains(id), !flags.contains(nil) else { throw wrong }
      return AddedToken(id: id, singleWord: flags[0]!, lstrip: flags[1]!, rstrip: flags[2]!, normalized: flags[3]!)
    }
  }
}

private enum TextPart {
  case token(AddedToken)
  case text([Unicode.Scalar])
}

/// Finds tokens in a text as the package tokenizers does: the leftmost first, of several the longest, none twice.
private struct Cutter: Sendable {
  /// By their first character, the longest first.
  private var tokens: [Unicode.Scalar: [(content: [Unicode.Scalar], token: AddedToken)]] = [:]
  let count: Int

  init(_ added: [AddedToken], _ vocabulary: [ExactText?]) {
    var seen: Set<[Unicode.Scalar]> = []
    for token in added {
      let plain = Array((vocabulary[token.id]?.string ?? "").unicodeScalars)
      let content = token.normalized ? Tokenizer.normalize(plain) : plain
      guard let first = content.first, seen.insert(content).inserted else { continue }
      tokens[first, default: []].append((content, token))
    }
    count = seen.count
    tokens = tokens.mapValues { $0.sorted { $0.content.count > $1.content.count } }
  }

  func cut(_ text: [Unicode.Scalar]) -> [TextPart] {
    var (found, done, at) = ([TextPart](), 0, 0)
    while at < text.count {
      guard let (content, token) = tokens[text[at]]?.first(where: { text[at...].starts(with: $0.content) }) else {
        at += 1
        continue
      }
      var (start, end) = (at, at + content.count)
      at = end
      let touched = (start > 0 && Cutter.inWord(text[start - 1])) || (end < text.count && Cutter.inWord(text[end]))
      if token.singleWord, touched { continue }
      while token.lstrip, start > done, Tokenizer.isWhite(text[start - 1]) { start -= 1 }
      while token.rstrip, end < text.count, Tokenizer.isWhite(text[end]) { end += 1 }
      if done < start { found.append(.text(Array(text[done..<start]))) }
      found.append(.token(token))
      done = end
    }
    if done < text.count { found.append(.text(Array(text[done...]))) }
    return found
  }

  /// Unicode's Alphabetic, marks, decimal digits, underscores and joiners.
  private static func inWord(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .nonspacingMark, .spacingMark, .enclosingMark, .decimalNumber, .connectorPunctuation: true
    default: scalar.properties.isAlphabetic || scalar.properties.isJoinControl
    }
  }
}
