import Foundation

/// The mark that a decoder leaves in its pictures, as unplug.sdk.drawing.device.mark has it.
enum Mark {
  static let (bits, side, leastSide, threshold) = (48, 128, 64, 1e-6)
  /// Shares of the reader's side that a picture is laid on: as a whole, and as a crop of a whole.
  static let shares = [1.0, 0.8]
  /// The public demonstration key.
  static let publicKey = "db7b91574e94"
  /// The folder of the readers in a base's.
  static let folder = "mark-reader"

  /// The bits of a key, the first digit's highest first.
  static func keyBits(_ key: String) throws -> [Bool] {
    guard key.utf8.count == bits / 4, key.utf8.allSatisfy({ "0123456789abcdef".utf8.contains($0) }),
      let value = UInt64(key, radix: 16)
    else {
      throw Failure("The key", "it is not \(bits / 4) hexadecimal digits", "Give one of unplug train decoder --mark")
    }
    return (0..<bits).map { value >> (bits - 1 - $0) & 1 == 1 }
  }

  /// P(so many of the bits agree in one of the readings), at most, for bits that are tossed.
  static func chance(_ agree: Int, _ count: Int = shares.count) -> Double {
    var (ways, tail) = (1, 0)
    for place in stride(from: bits, through: agree, by: -1) {
      tail += ways
      ways = ways * place / (bits - place + 1)
    }
    return min(1, Double(count * tail) / 0x1p48)
  }

  /// A picture as the reader sees it, once a share of `shares`; what is missing is mirrored.
  static func readings(_ picture: Picture) throws -> [Picture] {
    let (width, height) = (picture.width, picture.height)
    guard min(width, height) >= leastSide else {
      throw Failure("The picture", "it has \(width)x\(height) pixels", "A mark is read from \(leastSide) pixels a side on")
    }
    return shares.map { laid(picture, ($0 * Double(side)).rounded(.toNearestOrEven) / Double(max(width, height))) }
  }

  private static func laid(_ picture: Picture, _ scale: Double) -> Picture {
    func scaled(_ size: Int) -> Int { max(1, Int((scale * Double(size)).rounded(.toNearestOrEven))) }
    let (width, height) = (scaled(picture.width), scaled(picture.height))
    let whole = Window(left: 0, top: 0, width: Double(picture.width), height: Double(picture.height))
    let small = picture.resized(whole, width: width, height: height)
    let (left, top) = ((side - width) / 2, (side - height) / 2)
    let rgb = (0..<side * side).flatMap { place -> ArraySlice<UInt8> in
      let from = 3 * (mirrored(place / side - top, height) * width + mirrored(place % side - left, width))
      return small.rgb[from..<from + 3]
    }
    return Picture(width: side, height: side, rgb: rgb)
  }

  /// Where a place before or after so many pixels falls back into them: the edge is seen twice.
  private static func mirrored(_ place: Int, _ size: Int) -> Int {
    let within = (place % (2 * size) + 2 * size) % (2 * size)
    return min(within, 2 * size - 1 - within)
  }

  /// Bits of the best reading that are those of a key; a bit is 1 where its logit is above 0.
  static func agree(_ logits: [[Float]], _ key: String) throws -> Int {
    let wanted = try keyBits(key)
    return logits.map { zip($0, wanted).filter { ($0 > 0) == $1 }.count }.max() ?? 0
  }

  /// Bits of a picture that are those of the public demonstration key, by an opened reader.
  static func read(_ picture: Picture, _ reader: any Engine) throws -> Int {
    let (inputs, outputs) = (reader.iospec.inputs, reader.iospec.outputs)
    guard inputs.count == 1, inputs[0].isImage, inputs[0].channelsFirst == [1, 3, side, side], outputs[0].count == bits else {
      throw Failure("The reader of marks", "it reads no marks of \(bits) bits", "Export mark-reader again")
    }
    let logits = try readings(picture).map { seen in
      let given = Values.floats(conditionInput(seen, range: inputs[0].range ?? [0, 1]))
      return try reader.runChannelsFirst([inputs[0].name: given])[outputs[0].name]?.floats ?? []
    }
    return try agree(logits, publicKey)
  }
}

extension Generator {
  /// The reader of marks that `unplug export mark-reader` wrote into the base's folder `mark-reader`, opened; fp32 before others.
  func markReader(_ openers: [any Opener]) throws -> any Engine {
    let files = try marks ?? readFolder(folder.appendingPathComponent(Mark.folder))
    let cards = files.sorted { $0.key < $1.key }.compactMap { _, data -> Json? in
      guard data.count <= 1 << 20, let card = try? looseJson(data), card["model_type"] == .text("mark_reader"),
        card["bytes"]?.int ?? .max <= 1 << 24, opener(card, openers) != nil
      else { return nil }
      return card
    }
    guard let card = cards.first(where: { $0["precision"] == .text("fp32") }) ?? cards.first, let own = opener(card, openers) else {
      throw Failure("The reader of marks", "it has no file that this app can run", "Export mark-reader with --to coreml")
    }
    let file = (card.object ?? [:]).merging(["file": text("\(Mark.folder)/\(card["file"]?.string ?? "")")]) { $1 }
    let part = try Part(.object(["iospec": card["iospec"] ?? .null, "files": .list([.object(file)])]), Mark.folder)
    return try own.open(checked(part.files[0]), iospec: part.iospec, delegate: own.processor, threads: 2)
  }
}
