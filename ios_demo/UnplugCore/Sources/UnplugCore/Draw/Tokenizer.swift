import Foundation

/// A prompt as a base reads it.
public struct Encoded: Equatable, Sendable {
  public let ids: [Int32]
  /// That the whole prompt has, start and end included; more than `ids` were cut.
  public let tokens: Int
  /// Words that are no token of their own: the base spells them, and may never have seen them.
  public let spelled: [String]

  public var cut: Bool { tokens > ids.count }
}

/// CLIP's tokenizer from a vocabulary and merges as data; docs/device.md has its steps.
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
  private let marks: [[UInt8]]
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
    marks = [start, end].map { tokens[$0]!.utf8 }
  }

  private static func key(_ left: Int, _ right: Int) -> UInt64 { UInt64(left) << 32 | UInt64(right) }

  /// - Throws: `Failure` for more than 65,536 characters.
  public func encode(_ text: String) throws -> Encoded {
    guard text.unicodeScalars.count <= Tokenizer.maxCharacters else {
      throw Failure("The prompt", "it has more than \(Tokenizer.maxCharacters) characters", "Give a shorter one")
    }
    var (found, spelled) = ([Int](), [String]())
    for piece in pieces(Array(text.utf8)) {
      switch piece {
      case .mark(let id): found.append(id)
      case .plain(let bytes):
        for word in words(of: String(decoding: bytes, as: UTF8.self)) {
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

  private enum Piece {
    case mark(Int)
    case plain([UInt8])
  }

  /// Cuts at marks that are written out.
  private func pieces(_ text: [UInt8]) -> [Piece] {
    var (found, plain, at) = ([Piece](), [UInt8](), 0)
    while at < text.count {
      if let place = marks.firstIndex(where: { !$0.isEmpty && text[at...].starts(with: $0) }) {
        found += [.plain(plain), .mark(place == 0 ? start : end)]
        plain = []
        at += marks[place].count
      } else {
        plain.append(text[at])
        at += 1
      }
    }
    return found + [.plain(plain)]
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

  private enum Kind { case white, letter, number, other }

  /// Unicode's property White_Space, written out.
  private static func isWhite(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x09...0x0d, 0x20, 0x85, 0xa0, 0x1680, 0x2000...0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000: true
    default: false
    }
  }

  private static func kind(_ scalar: Unicode.Scalar) -> Kind {
    if isWhite(scalar) { return .white }
    switch scalar.properties.generalCategory {
    case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: return .letter
    case .decimalNumber, .letterNumber, .otherNumber: return .number
    default: return .other
    }
  }

  private static let endings = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"].map { Array($0.unicodeScalars) }

  /// Normalized, in lower case, cut at each place by the first rule that fits: an English ending, a run of letters, one number,
  /// a run of anything else.
  private func words(of piece: String) -> [String] {
    let composed = piece.precomposedStringWithCanonicalMapping
    let scalars = composed.unicodeScalars.flatMap { Array($0.properties.lowercaseMapping.unicodeScalars) }
    var (found, at) = ([String](), 0)
    while at < scalars.count {
      let kind = Tokenizer.kind(scalars[at])
      var end = at + 1
      if let ending = Tokenizer.endings.first(where: { scalars[at...].starts(with: $0) }) {
        end = at + ending.count
      } else if kind == .letter || kind == .other {
        while end < scalars.count, Tokenizer.kind(scalars[end]) == kind { end += 1 }
      }
      if kind != .white {
        var word = String.UnicodeScalarView()
        word.append(contentsOf: scalars[at..<end])
        found.append(String(word))
      }
      at = end
    }
    return found
  }
}
