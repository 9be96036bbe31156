import Foundation

/// What `unplug head make` wrote with what `unplug export` wrote of its trunk.
struct HeadFiles: Sendable {
  static let (head, card) = ("head.safetensors", "trunk.json")
  private static let fix = "Give the folder that unplug head make wrote, with what unplug export wrote of its trunk in it"

  /// Names of files in `files`: the head, and an exported trunk of it with its card.
  private let paths: (head: ExactText, card: ExactText, trunk: String)
  private let files: [ExactText: Data]

  /// - Parameters:
  ///   - files: those of a folder, or of the zip file of one.
  ///   - openers: the runtimes that the app has.
  /// - Throws: `Failure`: no head, or no exported file of its trunk that the app can run.
  init(_ files: [ExactText: Data], _ openers: [any Opener]) throws {
    let heads = files.keys.filter { $0.string == HeadFiles.head || $0.string.hasSuffix("/\(HeadFiles.head)") }
    guard heads.count == 1 else { throw Failure("The head", "there is not one \(HeadFiles.head) in it", HeadFiles.fix) }
    let own = try DeviceHead(files[heads[0]]!).facts["trunk_sha256"]
    let card = files.keys.sorted().first { name in
      let path = String(name.string.dropLast(5))
      guard name.string.hasSuffix(".json"), files.keys.contains(where: { $0.string == path || $0.hasPrefix("\(path)/") }),
        let said = try? looseJson(files[name]!)
      else { return false }
      return said["model_type"] == .text("age-trunk") && said["checkpoint_sha256"] == own && opener(said, openers) != nil
    }
    guard let card else { throw Failure("The head", "no exported file of its trunk that this app can run is in it", HeadFiles.fix) }
    (self.files, paths) = (files, (heads[0], card, String(card.string.dropLast(5))))
  }

  /// Writes what the app keeps of it into a folder, whole or not at all; what is left there of another head goes.
  func write(to home: URL) throws {
    let manager = FileManager.default
    let new = home.deletingLastPathComponent().appendingPathComponent(".\(UUID().uuidString)")
    defer { try? manager.removeItem(at: new) }
    do {
      try manager.createDirectory(at: new, withIntermediateDirectories: true)
      try files[paths.head]!.write(to: new.appendingPathComponent(HeadFiles.head))
      try files[paths.card]!.write(to: new.appendingPathComponent(HeadFiles.card))
      let said = try looseJson(files[paths.card]!)
      try UnplugCore.write(paths.trunk, of: files, to: new.appendingPathComponent(HeadFiles.trunk(said)))
      _ = try PlacedHead(new, [])
      try? manager.removeItem(at: home)
      try manager.moveItem(at: new, to: home)
    } catch let error as Failure { throw error } catch { throw unwritten("The head", error) }
  }

  /// The trunk's name in the app's folder: runtimes go by the end of it.
  fileprivate static func trunk(_ card: Json) -> String { card["target"] == .text("coreml") ? "trunk.mlpackage" : "trunk.onnx" }
}

/// The runtime that takes an exported file, by its card.
func opener(_ card: Json, _ openers: [any Opener]) -> (any Opener)? {
  let runtimes = ["coreml": "coreml-app", "onnx": "onnx-app"]
  return openers.first { $0.runtime == runtimes[card["target"]?.string ?? ""] }
}

/// A head and its trunk as they lie in the app's folder.
struct PlacedHead: Sendable {
  let start: DeviceHead
  /// Nothing where no opener was given.
  let trunk: PlacedModel?

  /// - Throws: `Failure` where the trunk is another file than its card says, or is from something else than one picture to features.
  init(_ home: URL, _ openers: [any Opener]) throws {
    let wrong = Failure("The trunk", "it is another file than its card says", "Open the head again")
    guard let raw = try? Data(contentsOf: home.appendingPathComponent(HeadFiles.head)),
      let said = try? looseJson(Data(contentsOf: home.appendingPathComponent(HeadFiles.card)))
    else { throw Failure("The head", "none is open", "Open the folder that unplug head make wrote") }
    start = try DeviceHead(raw)
    let place = home.appendingPathComponent(HeadFiles.trunk(said))
    let digest = try place.pathExtension == "mlpackage" ? treeDigest(place).sha256 : sha256Hex((try? Data(contentsOf: place)) ?? Data())
    guard digest == said["sha256"]?.string else { throw wrong }
    let iospec = try IOSpec(said["iospec"], what: HeadFiles.card)
    guard iospec.inputs.count == 1, iospec.inputs[0].isImage, iospec.outputs.contains(where: { $0.name == "features" }) else {
      throw Failure("The trunk", "it is not from one picture to features", "Export it again")
    }
    trunk = opener(said, openers).map { PlacedModel(file: place, sha256: digest, iospec: iospec, opener: $0) }
  }

  /// Features of a photograph.
  ///
  /// - Parameters:
  ///   - frame: the places of a face's eyes; nothing: the centre square is taken.
  ///   - faces: all that were found.
  func pooled(_ picture: Picture, _ faces: [FoundFace], _ frame: Frame?) throws -> [Double] {
    guard let trunk else { throw Failure("The trunk", "this app cannot run it", "Export it with --to coreml") }
    let input = trunk.iospec.inputs[0]
    let size = input.axis("H")
    let shown = try frame.map { try picture.onlyFace(faces, size: size, frame: $0) } ?? picture.square(size)
    let engine = try trunk.opener.open(trunk.file, iospec: trunk.iospec, delegate: trunk.opener.processor, threads: 2)
    let found = try engine.runChannelsFirst([input.name: .floats(conditionInput(shown, range: input.range ?? [0, 1]))])
    return (found["features"]?.floats ?? []).map(Double.init)
  }
}
