import Foundation

/// The UNet's input of low-rank updates: `rank` rows, each with the factors of all slots one after the other; zeros are the
/// bare base.
public struct LoraSlots: Equatable, Sendable {
  public static let input = "lora"
  /// Numbers of the input: a base with more is too large for a phone.
  static let most = 1 << 26

  public let rank: Int
  /// Numbers of one row.
  public let width: Int

  init(_ value: Json) throws {
    guard value.hasKeys(["rank", "slots"]), let rank = value["rank"]?.int, (1...4096).contains(rank), let slots = value["slots"]?.list,
      !slots.isEmpty
    else { throw LoraSlots.wrong }
    var width = 0
    for slot in slots {
      guard slot.hasKeys(["layer", "fan_in", "fan_out"]), slot["layer"]?.string != nil, let first = slot["fan_in"]?.int,
        let second = slot["fan_out"]?.int, (1...LoraSlots.most).contains(first), (1...LoraSlots.most).contains(second)
      else { throw LoraSlots.wrong }
      width += first + second
      guard width <= LoraSlots.most / rank else { throw LoraSlots.wrong }
    }
    (self.rank, self.width) = (rank, width)
  }

  private static let wrong = Failure("pipeline.json does not hold", "its slots do not make the input lora", "Export the base again")
}

/// Named weights of a generator: the first rows of its UNet's low-rank input, as float32, little-endian.
public struct Variant: Sendable {
  public let file: PartFile
  /// What suits it; nothing: the pipeline's.
  public let defaults: Pipeline.Defaults?
  /// The word of a pack, which a prompt with that word switches on; nothing: the variant acts where it is chosen.
  public let word: String?

  init(_ value: Json, _ name: String, _ slots: LoraSlots, _ schedule: Schedule) throws {
    func refuse(_ why: String) -> Failure { Failure("pipeline.json does not hold", "its variant \(name) \(why)", "Export the base again") }
    guard value.hasKeys(["file", "sha256", "bytes"], optional: ["defaults", "word"]), let path = value["file"]?.text, Part.isPlain(path),
      let digest = value["sha256"]?.text, isDigest(digest)
    else { throw refuse("has a file without a plain path inside the folder, or without SHA-256") }
    let row = 4 * slots.width
    guard let bytes = value["bytes"]?.int, bytes % row == 0, (1...slots.rank).contains(bytes / row) else {
      throw refuse("has not 1 to \(slots.rank) rows of \(row) bytes")
    }
    file = PartFile(target: Variant.kind, precision: "fp32", file: path.string, sha256: digest.string, bytes: bytes)
    switch value["word"] {
    case nil, .null?: word = nil
    case let own?:
      guard let said = own.string, PackWords.hold(said) else { throw refuse("is a pack with a word that no prompt says") }
      word = said
    }
    switch value["defaults"] {
    case nil, .null?: defaults = nil
    case let own?: defaults = try Pipeline.Defaults(own, schedule, of: " of \(name)")
    }
  }

  /// Stands where a part's file has its target.
  private static let kind = "variant"

  /// The numbers of its file.
  func rows(_ data: Data) throws -> [Float] {
    let found = stride(from: 0, to: data.count - 3, by: 4).map { place -> Float in
      let bits = (0..<4).reduce(UInt32(0)) { $0 | UInt32(data[data.startIndex + place + $1]) << UInt32(8 * $1) }
      return Float(bitPattern: bits)
    }
    guard found.allSatisfy(\.isFinite) else { throw Failure(file.file, "it holds something other than numbers", "Do not use this folder") }
    return found
  }
}
