import Foundation

/// One exported file of a part.
public struct PartFile: Equatable, Sendable {
  public let target: String
  public let precision: String
  public let file: String
  public let sha256: String
  public let bytes: Int
}

/// A network of a generator, with its files by target and precision.
public struct Part: Sendable {
  public let iospec: IOSpec
  public let files: [PartFile]

  init(_ value: Json?, _ name: String) throws {
    iospec = try IOSpec(value?["iospec"], what: "pipeline.json, \(name)")
    files = try (value?["files"]?.list ?? []).map { item in
      guard let file = item["file"]?.text, Part.isPlain(file), let digest = item["sha256"]?.text, isDigest(digest),
        let bytes = item["bytes"]?.int, bytes >= 0, let target = item["target"]?.string, let precision = item["precision"]?.string
      else { throw refuse("its \(name) has a file without a plain path inside the folder, or without SHA-256 and size") }
      return PartFile(target: target, precision: precision, file: file.string, sha256: digest.string, bytes: bytes)
    }
    let kinds = Set(files.map { "\($0.target) \($0.precision)" })
    guard !files.isEmpty, kinds.count == files.count else { throw refuse("its \(name) has no files, or two of one kind") }
    for spec in iospec.inputs + iospec.outputs where spec.dtype != (spec.name == "input_ids" ? "int32" : "float32") {
      throw refuse("its \(name) has \(spec.name) of \(spec.dtype)")
    }
  }

  /// Parts of letters, digits and `_.+-`; folders that a Mac's exporter made may begin with an underscore.
  static func isPlain(_ path: ExactText) -> Bool {
    path.utf8.count <= 400
      && path.parts.allSatisfy { part in
        guard let first = part.first, part.count <= 200 else { return false }
        return (Names.isLetterOrDigit(first) || first == UInt8(ascii: "_"))
          && part.allSatisfy { Names.isLetterOrDigit($0) || "_.+ -".utf8.contains($0) }
      }
  }
}

private func refuse(_ why: String) -> Failure { Failure("pipeline.json does not hold", why, "Export the base again") }

/// `pipeline.json`, `unplug-pipeline/1`: all that the loop must know. Nothing in it is trusted.
public struct Pipeline: Sendable {
  public struct Defaults: Sendable {
    public let steps: Int
    public let guidance: Double
    public let solver: Solver

    init(_ value: Json?, _ schedule: Schedule, of: String = "") throws {
      guard let steps = value?["steps"]?.int, let guidance = value?["guidance"]?.double,
        let solver = (value?["solver"]?.string).flatMap(Solver.init), (1...50).contains(guidance),
        steps >= 1, steps <= schedule.mostSteps(solver)
      else { throw refuse("its defaults\(of) are out of range") }
      (self.steps, self.guidance, self.solver) = (steps, guidance, solver)
    }
  }

  public struct Plugin: Sendable {
    /// What it follows: `canny`, `face_landmark`, ...
    public let condition: String
    public let part: Part
  }

  public static let fileName = "pipeline.json"
  /// The UNet's input of the negative prompt's states, which one that draws without guidance lacks.
  static let negative = "negative_hidden_states"
  public static let maxBytes = 64 << 20

  public let name: String
  public let imageSize: Int
  public let latentShape: [Int]
  public let tokenizer: Tokenizer
  public let schedule: Schedule
  public let textEncoder: Part
  public let unet: Part
  public let decoder: Part
  public let plugins: [String: Plugin]
  public let residuals: [String]
  public let defaults: Defaults
  /// The UNet's last input where it has one, which variants fill.
  public let lora: LoraSlots?
  public let variants: [String: Variant]

  private static let keys: Set<ExactText> = [
    "schema", "name", "image_size", "latent_shape", "tokenizer", "schedule", "text_encoder", "unet", "decoder", "plugins",
    "residuals", "scaling_factor", "shift_factor", "defaults", "noise", "versions", "git_revision",
  ]

  public init(_ data: Data) throws {
    guard data.count <= Pipeline.maxBytes else { throw refuse("it is larger than \(Pipeline.maxBytes) bytes") }
    let value: Json
    do { value = try looseJson(data) } catch let error as Failure { throw refuse("it is not valid JSON (\(error.why))") }
    guard value["schema"] == .text("unplug-pipeline/1") else { throw refuse("its schema is not unplug-pipeline/1") }
    guard value.hasKeys(Pipeline.keys, optional: ["lora", "variants"]) else { throw refuse("it has unknown keys, or some are missing") }
    guard let name = value["name"]?.string, let side = value["image_size"]?.int, (1...8192).contains(side),
      let latent = value["latent_shape"]?.list?.compactMap({ $0.int }), latent.count == 3, latent.allSatisfy({ (1...4096).contains($0) }),
      let residuals = value["residuals"]?.list?.compactMap({ $0.string }), value["noise"] == .text("philox4x32-10/box-muller"),
      let plugins = value["plugins"]?.object, plugins.count <= 32
    else { throw refuse("a value in it is of another kind than it must be") }
    (self.name, imageSize, latentShape, self.residuals) = (name, side, latent, residuals)
    tokenizer = try Tokenizer(value["tokenizer"])
    schedule = try Schedule(value["schedule"])
    textEncoder = try Part(value["text_encoder"], "text_encoder")
    unet = try Part(value["unet"], "unet")
    decoder = try Part(value["decoder"], "decoder")
    var found: [String: Plugin] = [:]
    for (name, item) in plugins {
      guard Names.isSafe(name), !name.utf8.contains(UInt8(ascii: "/")), let condition = item["condition"]?.string else {
        throw refuse("\(name) is not a plugin")
      }
      found[name.string] = Plugin(condition: condition, part: try Part(item["part"], "plugin \(name)"))
    }
    self.plugins = found
    defaults = try Defaults(value["defaults"], schedule)
    let lora = try value["lora"].map { try LoraSlots($0) }
    var named: [String: Variant] = [:]
    for (name, item) in value["variants"]?.object ?? [:] {
      guard let lora, Names.isSafe(name), !name.utf8.contains(UInt8(ascii: "/")) else {
        throw refuse("it has a variant without a plain name, or a unet without slots")
      }
      named[name.string] = try Variant(item, name.string, lora, schedule)
    }
    guard Set(named.values.compactMap { $0.word.map(PackWords.of) }).count == named.values.compactMap(\.word).count else {
      throw refuse("two of its packs have one word")
    }
    guard value["variants"] == nil || value["variants"]?.object != nil else { throw refuse("its variants are not a record") }
    (self.lora, variants) = (lora, named)
    try checkFit()
    guard isGuided || ([defaults] + named.values.compactMap(\.defaults)).allSatisfy({ $0.guidance == 1 }) else {
      throw refuse("its defaults, or those of a variant, have a guidance, and its unet answers for no negative prompt")
    }
  }

  /// Whether the UNet answers for the negative prompt too; without that, a guidance of 1 is the only one.
  public var isGuided: Bool { unet.iospec.inputs.contains { $0.name == Pipeline.negative } }

  /// What suits a variant; nothing is the bare base.
  public func defaults(of variant: String?) -> Defaults { variant.flatMap { variants[$0]?.defaults } ?? defaults }

  /// Names of the variants that a prompt's words switch on, in their order, with the words.
  public var packs: [(name: String, word: String)] {
    variants.keys.sorted().compactMap { name in variants[name]?.word.map { (name, $0) } }
  }

  /// The packs that a prompt asks for.
  public func packs(in prompt: String) -> [(name: String, word: String)] {
    let read = PackWords.of(prompt)
    return packs.filter { PackWords.stand(PackWords.of($0.word), in: read) }
  }

  /// What fills the UNet's slots: the variant that was chosen, then the packs that the prompt asks for.
  func variants(for prompt: String, _ variant: String?) throws -> [(name: String, own: Variant)] {
    let asked = packs(in: prompt).map(\.name)
    if let variant {
      guard let own = variants[variant] else {
        let known = variants.keys.sorted().joined(separator: ", ")
        throw Failure("The variant \(variant)", "this base has none of this name", known.isEmpty ? "Export it with one" : "It has \(known)")
      }
      if let word = own.word, !asked.contains(variant) {
        let fix = "Say it, or leave the variant out"
        throw Failure("The variant \(variant)", "it is a pack, which the prompt switches on by saying \(word)", fix)
      }
    }
    let names = [variant].compactMap { $0 } + asked.filter { $0 != variant }
    let found = names.map { ($0, variants[$0]!) }
    let rows = found.reduce(0) { $0 + $1.1.file.bytes } / (4 * (lora?.width ?? 1))
    guard rows <= lora?.rank ?? 0 else {
      let why = "they have \(rows) ranks together, and the base has slots for \(lora?.rank ?? 0)"
      throw Failure(names.joined(separator: " and "), why, "Ask for fewer of them in one prompt")
    }
    return found
  }

  /// All parts by name: those of the base, and each plugin as plugins.NAME.
  public var parts: [String: Part] {
    var found = ["text_encoder": textEncoder, "unet": unet, "decoder": decoder]
    for (name, plugin) in plugins { found["plugins.\(name)"] = plugin.part }
    return found
  }

  /// The file of every part of one target and precision, or nothing where one is missing.
  public func files(target: String, precision: String) -> [String: PartFile]? {
    let found = parts.compactMapValues { part in part.files.first { $0.target == target && $0.precision == precision } }
    return found.count == parts.count ? found : nil
  }

  /// Whether every part takes what the one before gives.
  private func checkFit() throws {
    func shapes(_ specs: [TensorSpec]) -> [String: [Int]] {
      Dictionary(specs.map { ($0.name, $0.channelsFirst) }) { one, _ in one }
    }
    let own = ["text_encoder": textEncoder, "unet": unet, "decoder": decoder].mapValues { shapes($0.iospec.inputs + $0.iospec.outputs) }
    let width = own["text_encoder"]!["hidden_states"]?.last ?? 0
    let (latent, states, length) = ([1] + latentShape, [1, tokenizer.length, width], [1, tokenizer.length])
    var wanted: [(String, String, [Int])] = [
      ("text_encoder", "input_ids", length), ("text_encoder", "hidden_states", states), ("unet", "sample", latent),
      ("unet", "timestep", [1]), ("unet", "encoder_hidden_states", states), ("unet", "noise_pred", latent),
      ("decoder", "latents", latent), ("decoder", "image", [1, 3, imageSize, imageSize]),
    ]
    if isGuided { wanted += [("unet", Pipeline.negative, states), ("unet", "noise_pred_negative", latent)] }
    guard isGuided || own["unet"]!["noise_pred_negative"] == nil else {
      throw refuse("its unet has an output for a negative prompt, and no input for one")
    }
    for (part, tensor, shape) in wanted where own[part]![tensor] != shape {
      throw refuse("its \(part) has \(tensor) of the shape \(own[part]![tensor] ?? []) where \(shape) is needed")
    }
    let asked = ["sample", "timestep", "encoder_hidden_states"] + (isGuided ? [Pipeline.negative] : [])
    let behind = Array(unet.iospec.inputs.dropFirst(asked.count))
    let (taken, slots) = (Array(behind.prefix(residuals.count)), Array(behind.dropFirst(residuals.count)))
    guard unet.iospec.inputs.prefix(asked.count).map(\.name) == asked, taken.map(\.name) == residuals,
      slots.map(\.name) == (lora == nil ? [] : [LoraSlots.input])
    else {
      throw refuse("its residuals are not the inputs of its unet that follow the words")
    }
    if let lora, slots[0].shape != [1, lora.rank, lora.width] {
      throw refuse("its slots of rank \(lora.rank) do not make the input \(LoraSlots.input)")
    }
    for (name, plugin) in plugins {
      let inputs = plugin.part.iospec.inputs
      guard inputs.count == 1, inputs[0].name == "condition", inputs[0].channelsFirst == [1, 3, imageSize, imageSize] else {
        throw refuse("its plugin \(name) takes no condition of \(imageSize) pixels")
      }
      guard shapes(plugin.part.iospec.outputs) == shapes(taken) else { throw refuse("its plugin \(name) was made for another base") }
    }
    guard let most = textEncoder.iospec.inputs.first?.range?.last, Int(most) >= tokenizer.vocabulary - 1 else {
      throw refuse("its tokenizer has more tokens than its text encoder takes")
    }
  }
}

/// A folder that `unplug export` wrote: its pipeline, and its files, each checked by size and SHA-256 before it is opened.
public struct Generator: Sendable {
  public let folder: URL
  public let pipeline: Pipeline
  /// Readers of marks that were signed with it.
  let marks: [ExactText: Data]?

  /// - Parameter signed: its bundle, where somebody signed it: then what it holds is what was signed.
  public init(_ folder: URL, _ signed: Verified? = nil) throws {
    let path = folder.appendingPathComponent(Pipeline.fileName)
    guard let data = signed?.files[ExactText(Pipeline.fileName)] ?? (try? Data(contentsOf: path)) else {
      throw Failure(folder.lastPathComponent, "it has no pipeline.json", "Give a folder that unplug export wrote")
    }
    (self.folder, pipeline) = (folder, try Pipeline(data))
    marks = signed?.files.filter { $0.key.hasPrefix("\(Mark.folder)/") }
  }

  /// The place of one file, which is the one that pipeline.json says; a folder (`.mlpackage`) is digested file by file.
  public func checked(_ file: PartFile) throws -> URL {
    let place = folder.appendingPathComponent(file.file)
    let wrong = Failure(file.file, "it is missing, or another file than its record says", "Do not use this folder")
    let facts = try? FileManager.default.attributesOfItem(atPath: place.path)
    switch facts?[.type] as? FileAttributeType {
    case .typeRegular?:
      guard (facts?[.size] as? NSNumber)?.intValue == file.bytes, let data = try? Data(contentsOf: place),
        sha256Hex(data) == file.sha256
      else { throw wrong }
    case .typeDirectory?:
      let (digest, bytes) = try treeDigest(place)
      guard bytes == file.bytes, digest == file.sha256 else { throw wrong }
    default: throw wrong
    }
    return place
  }

  /// The rows of a variant and of the packs that a prompt asks for, which are those that pipeline.json says; none for the bare
  /// base.
  public func rows(_ variant: String?, prompt: String) throws -> [Float] {
    try pipeline.variants(for: prompt, variant).flatMap { _, own in
      let place = try checked(own.file)
      guard let data = try? Data(contentsOf: place) else { throw Failure(own.file.file, "it cannot be read", "Export the base again") }
      return try own.rows(data)
    }
  }

  /// The size of what a choice and some plugins need, in bytes.
  public func weight(target: String, precision: String, plugins: [String]) -> Int {
    let names = ["text_encoder", "unet", "decoder"] + plugins.map { "plugins.\($0)" }
    let files = pipeline.files(target: target, precision: precision) ?? [:]
    return names.reduce(0) { $0 + (files[$1]?.bytes ?? 0) }
  }
}
