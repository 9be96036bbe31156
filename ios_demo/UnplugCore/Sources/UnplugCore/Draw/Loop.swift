import Foundation

/// One plugin with what it follows.
public struct Steer: Sendable {
  public let plugin: String
  /// A drawn condition, of the pipeline's side.
  public let condition: Picture
  /// Factor on its residuals; 0 is off, 1 is as trained.
  public let strength: Float

  public init(plugin: String, condition: Picture, strength: Float = 1) {
    (self.plugin, self.condition, self.strength) = (plugin, condition, strength)
  }
}

/// What to draw, and how.
public struct Order: Sendable {
  public var prompt: String
  public var negative: String
  public var seed: UInt64
  public var steps: Int
  public var guidance: Double
  public var solver: Solver
  public var steers: [Steer]
  /// Rows of a variant and of packs, see `Generator.rows`; none are the bare base.
  public var lora: [Float] = []

  /// - Parameter defaults: the pipeline's.
  public init(prompt: String, negative: String = "", seed: UInt64 = 0, steers: [Steer] = [], defaults: Pipeline.Defaults) {
    (self.prompt, self.negative, self.seed, self.steers) = (prompt, negative, seed, steers)
    (steps, guidance, solver) = (defaults.steps, defaults.guidance, defaults.solver)
  }
}

/// The state after one step.
public struct Seen: Sendable {
  public let done: Int
  public let steps: Int
  public let latent: [Float]
  /// The latent of the picture that the step points at.
  public let data: [Float]
}

public struct Drawn: Sendable {
  public let picture: Picture
  /// As the decoder gave it: three channels of H x W from 0 to 1.
  public let decoded: [Float]
  public let latent: [Float]
  public let prompt: Encoded
}

/// The loop over opened parts: tokens, text states, noise, steps, picture; as unplug.sdk.drawing.device.loop has it.
///
/// The same words, seed and conditions are the same picture in every language, but for rounding.
public final class Loop {
  public static let maxStrength: Float = 10
  public static let maxGuidance = 50.0

  private let pipeline: Pipeline
  private let engines: [String: any Engine]

  /// - Parameter engines: the opened parts by name; only those plugins that steer.
  public init(_ pipeline: Pipeline, _ engines: [String: any Engine]) {
    (self.pipeline, self.engines) = (pipeline, engines)
  }

  /// Draws one picture.
  ///
  /// - Parameter watch: told of every step; it may throw to stop.
  /// - Throws: `Failure` for a number out of range or a condition that does not fit; whatever an engine or `watch` throws.
  public func draw(_ order: Order, watch: (Seen) throws -> Void = { _ in }) throws -> Drawn {
    try check(order)
    let table = try SamplingTable(pipeline.schedule, steps: order.steps, solver: order.solver)
    let more = try residuals(order.steers).merging(updates(order.lora)) { own, _ in own }
    let prompt = try pipeline.tokenizer.encode(order.prompt)
    var asked: Tensors = ["encoder_hidden_states": .floats(try states(prompt))]
    if pipeline.isGuided { asked[Pipeline.negative] = .floats(try states(pipeline.tokenizer.encode(order.negative))) }
    var latent = NoiseStream.normals(seed: order.seed, count: pipeline.latentShape.reduce(1, *))
    var before = [Float](repeating: 0, count: latent.count)
    for (step, time) in table.timestep.enumerated() {
      var given = asked
      (given["sample"], given["timestep"]) = (.floats(latent), .floats([Float(time)]))
      for (name, values) in more { given[name] = .floats(values) }
      let found = try run("unet", given)
      var prediction = try output("noise_pred", found)
      if pipeline.isGuided { prediction = guided(prediction, try output("noise_pred_negative", found), table.scale(step, order.guidance)) }
      (latent, before) = table.advance(step, latent: latent, prediction: prediction, before: before)
      try watch(Seen(done: step + 1, steps: table.timestep.count, latent: latent, data: before))
    }
    let decoded = try decode(latent)
    return Drawn(picture: toPicture(decoded, side: pipeline.imageSize), decoded: decoded, latent: latent, prompt: prompt)
  }

  /// The decoder's numbers for a latent.
  public func decode(_ latent: [Float]) throws -> [Float] {
    try output("image", run("decoder", ["latents": .floats(latent)]))
  }

  private func run(_ part: String, _ given: Tensors) throws -> Tensors {
    guard let engine = engines[part] else { throw Failure(part, "it is not open", "Open the generator again") }
    return try engine.runChannelsFirst(given)
  }

  private func output(_ name: String, _ found: Tensors) throws -> [Float] {
    guard let values = found[name]?.floats else { throw Failure(name, "the model gave no such output", "Export it again") }
    return values
  }

  private func states(_ encoded: Encoded) throws -> [Float] {
    try output("hidden_states", run("text_encoder", ["input_ids": .ints(encoded.ids)]))
  }

  /// The UNet's input of low-rank updates, where it has one: the rows of a variant, and zeros below them.
  private func updates(_ rows: [Float]) throws -> [String: [Float]] {
    guard let lora = pipeline.lora else {
      guard rows.isEmpty else { throw Failure("The variant", "this base has no slots for it", "Leave it out") }
      return [:]
    }
    guard rows.count <= lora.rank * lora.width else { throw Failure("The variant", "it has more rows than the base has slots") }
    return [LoraSlots.input: rows + [Float](repeating: 0, count: lora.rank * lora.width - rows.count)]
  }

  /// Each residual input of the UNet: the plugins' outputs times their strengths, added up; zeros without plugins.
  private func residuals(_ steers: [Steer]) throws -> [String: [Float]] {
    let specs = Dictionary(pipeline.unet.iospec.inputs.map { ($0.name, $0.count) }) { one, _ in one }
    var total: [String: [Float]] = [:]
    for name in pipeline.residuals { total[name] = [Float](repeating: 0, count: specs[name]!) }
    for steer in steers {
      let range = pipeline.plugins[steer.plugin]!.part.iospec.inputs[0].range ?? [0, 1]
      let made = try run("plugins.\(steer.plugin)", ["condition": .floats(conditionInput(steer.condition, range: range))])
      for name in pipeline.residuals {
        total[name] = zip(total[name]!, try output(name, made)).map { $0 + steer.strength * $1 }
      }
    }
    return total
  }

  private func check(_ order: Order) throws {
    guard order.guidance >= 1, order.guidance <= Loop.maxGuidance else {
      throw Failure("guidance \(order.guidance)", "out of range", "Use 1 (none) to \(Int(Loop.maxGuidance))")
    }
    guard order.guidance == 1 || pipeline.isGuided else {
      throw Failure("guidance \(order.guidance)", "\(pipeline.name) draws without: its UNet answers for the prompt alone", "Leave it out")
    }
    if !order.negative.isEmpty, order.guidance == 1 {
      let fix = pipeline.isGuided ? "Leave it out, or raise the guidance above 1" : "Leave it out"
      throw Failure("The negative prompt", "without guidance it has no effect", fix)
    }
    for steer in order.steers {
      guard pipeline.plugins[steer.plugin] != nil else {
        let known = pipeline.plugins.keys.sorted().joined(separator: ", ")
        throw Failure("The plugin \(steer.plugin)", "this base has none of this name", "It has \(known)")
      }
      guard steer.strength >= 0, steer.strength <= Loop.maxStrength else {
        throw Failure("strength \(steer.strength)", "out of range", "Use 0 (off) to \(Int(Loop.maxStrength)); 1 is as trained")
      }
      let side = pipeline.imageSize
      guard steer.condition.width == side, steer.condition.height == side else {
        throw Failure("The condition of \(steer.plugin)", "it is not \(side) by \(side) pixels", "Give one of that size")
      }
      guard !steer.condition.isEmpty else {
        throw Failure("The condition of \(steer.plugin)", "it is empty", "Draw something, or switch it off")
      }
    }
  }
}

/// A condition as its plugin takes it: channels first, low + (high - low) (byte / 255) in float32.
func conditionInput(_ picture: Picture, range: [Double]) -> [Float] {
  let (low, width) = (Float(range[0]), Float(range[1] - range[0]))
  let count = picture.width * picture.height
  return (0..<3 * count).map { place in
    let unit = Float(picture.rgb[3 * (place % count) + place / count]) / 255
    return range == [0, 1] ? unit : unit * width + low
  }
}

/// Three channels from 0 to 1 as a picture: round(255 x), halves to the even neighbour, cut off at both ends.
func toPicture(_ decoded: [Float], side: Int) -> Picture {
  let count = side * side
  var rgb = [UInt8](repeating: 0, count: 3 * count)
  for place in rgb.indices {
    let scaled = (decoded[place] * 255).rounded(.toNearestOrEven)
    rgb[3 * (place % count) + place / count] = scaled.isNaN ? 0 : UInt8(min(255, max(0, scaled)))
  }
  return Picture(width: side, height: side, rgb: rgb)
}
