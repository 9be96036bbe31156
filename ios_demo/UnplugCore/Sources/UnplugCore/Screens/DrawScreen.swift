import Foundation
import Observation

/// A generator whose parts stay open, one picture at a time, away from the main thread.
public actor Painter {
  private var engines: [String: any Engine] = [:]
  private var key = ""

  public init() {}

  /// Opens what is not open yet and draws; ends with `CancellationError` after the step in which its task is cancelled.
  func draw(
    _ generator: Generator, _ order: Order, _ choice: DrawChoice, _ opener: any Opener, seen: @Sendable (DrawStep) -> Void
  ) throws -> Drawn {
    let now = "\(generator.folder.path) \(choice)"
    if now != key { (engines, key) = ([:], now) }
    guard let files = generator.pipeline.files(target: choice.target, precision: choice.precision) else {
      throw Failure("The base", "it has no \(choice.target) files of \(choice.precision)", "Export it with --to \(choice.target)")
    }
    for part in ["text_encoder", "unet", "decoder"] + order.steers.map({ "plugins.\($0.plugin)" }) where engines[part] == nil {
      try Task.checkCancellation()
      guard let file = files[part], let spec = generator.pipeline.parts[part]?.iospec else { throw Failure(part, "this base has none") }
      seen(.opening(part))
      engines[part] = try opener.open(generator.checked(file), iospec: spec, delegate: choice.delegate, threads: 2)
    }
    let loop = Loop(generator.pipeline, engines)
    return try loop.draw(order) { step in
      try Task.checkCancellation()
      seen(.step(step.done, step.steps))
    }
  }

  /// What a reader of marks in the base's folder says of a picture; nothing where it has none.
  func mark(_ picture: Picture, _ generator: Generator, _ openers: [any Opener]) -> String? {
    guard FileManager.default.fileExists(atPath: generator.folder.appendingPathComponent(Mark.folder).path) else { return nil }
    do {
      let reader = try engines[Mark.folder] ?? generator.markReader(openers)
      engines[Mark.folder] = reader
      let agree = try Mark.read(picture, reader)
      guard Mark.chance(agree) <= Mark.threshold else { return "No public mark was found, which proves nothing." }
      return "This picture carries our public mark: \(agree) of \(Mark.bits) bits."
    } catch { return "The mark was not read: \(line(of: error))" }
  }
}

public struct DrawChoice: Hashable, Sendable, CustomStringConvertible {
  public let target: String
  public let precision: String
  public let delegate: String
  public var description: String { "\(target) \(precision) \(delegate)" }

  public init(target: String, precision: String, delegate: String) {
    (self.target, self.precision, self.delegate) = (target, precision, delegate)
  }
}

/// How a photograph becomes what a plugin follows.
public enum Follow: String, CaseIterable, Sendable {
  /// As OpenCV's Canny detector draws them.
  case edges
  /// The outlines of a face, as Apple's Vision finds them.
  case face
  /// As it is: a line drawing, or what `unplug condition` drew.
  case picture
}

public enum DrawStep: Equatable, Sendable {
  case opening(String)
  case step(Int, Int)
}

/// Words and a condition in, a picture out, step by step, with a way to stop.
@MainActor
@Observable
public final class DrawScreen {
  public enum State: Equatable {
    case idle
    case checking
    case drawing(DrawStep?)
    case drawn(Picture)
    case stopped
    case failed(String)
  }

  public private(set) var state = State.idle
  public private(set) var generator: Generator?
  /// Who vouches for the base that is open.
  public private(set) var origin: String?
  /// Packs that the words switched on, words that the base has to spell, and whether it read only the beginning.
  public private(set) var hint: String?
  /// Whether the drawn picture carries the public mark, where a reader of marks lies with the base.
  public private(set) var mark: String?
  public var prompt = ""
  public var seed = "0"
  public var steps = 6
  public var guidance = 3.0
  public var solver = Solver.dpm
  public var plugin: String? { didSet { if plugin != oldValue { condition = nil } } }
  /// How a photograph is followed; nothing leaves it to the plugin.
  public var follow: Follow?
  public var strength = 1.0
  /// Weights of the base by name, nothing are its own; steps, guidance and solver become what suits them.
  public var variant: String? { didSet { if variant != oldValue { suit() } } }
  public var condition: Picture?
  public var choice: DrawChoice?
  private let openers: [any Opener]
  private let finder: any FaceFinder
  private let decoder: any PhotographDecoder
  private let painter = Painter()
  private let store: TrustStore?
  private let now: () -> Int
  private var task: Task<(Picture, String?), any Error>?

  /// - Parameters:
  ///   - memory: the keys that the app trusts; without it nothing opens that is signed.
  ///   - now: seconds since 1970.
  public init(
    openers: [any Opener], finder: any FaceFinder, decoder: any PhotographDecoder, memory: (any Memory)? = nil,
    now: @escaping () -> Int = { Int(Date().timeIntervalSince1970) }
  ) {
    (self.openers, self.finder, self.decoder) = (openers, finder, decoder)
    (store, self.now) = (memory.map { TrustStore($0) }, now)
  }

  /// Opens a folder that `unplug export` wrote; one with a signature only where that holds and is of a trusted key.
  public func open(_ folder: URL) async {
    do {
      let signed = try await verified(folder)
      let found = try Generator(folder, signed)
      if let signed { try store?.admit(signed, now: now()) }
      (generator, plugin, variant) = (found, nil, nil)
      origin = signed.map { told($0) } ?? "Nobody signed it; its files match pipeline.json."
      suit()
      choice = choices.first
      state = choice == nil ? .failed("The base has no files that this app can run; export it with --to coreml.") : .idle
    } catch { state = .failed(line(of: error)) }
  }

  /// Nothing where nobody signed it.
  private func verified(_ folder: URL) async throws -> Verified? {
    guard FileManager.default.fileExists(atPath: folder.appendingPathComponent("\(Names.signature)").path) else { return nil }
    guard let trust = try store?.trustOfBases() else {
      throw Failure("The base", "it is signed, and this app trusts no key yet", "Give it the publisher's .pub file first")
    }
    state = .checking
    let time = now()
    return try await Task.detached { try verify(readFolder(folder, mapped: true), trust, now: time, schema: .generator) }.value
  }

  private func told(_ signed: Verified) -> String {
    "Release \(signed.publication.release) of \(signed.publication.name), signed by the key \(signed.hint.prefix(16))."
  }

  /// What the base and this app offer together.
  public var choices: [DrawChoice] {
    guard let pipeline = generator?.pipeline else { return [] }
    let targets = ["coreml-app": "coreml", "onnx-app": "onnx"]
    return openers.flatMap { opener -> [DrawChoice] in
      let target = targets[opener.runtime] ?? ""
      let precisions = ["fp16", "fp32"].filter { pipeline.files(target: target, precision: $0) != nil }
      return precisions.flatMap { precision in
        opener.delegates.map { DrawChoice(target: target, precision: precision, delegate: $0) }
      }
    }
  }

  /// Those that are chosen by name.
  public var variants: [String] { generator.map { $0.pipeline.variants.filter { $1.word == nil }.keys.sorted() } ?? [] }

  /// Words that switch on packs of the base.
  public var packs: [String] { generator?.pipeline.packs.map(\.word) ?? [] }

  private func suit() {
    guard let usual = generator?.pipeline.defaults(of: variant) else { return }
    (steps, guidance, solver) = (usual.steps, usual.guidance, usual.solver)
  }

  public var plugins: [String] { generator.map { $0.pipeline.plugins.keys.sorted() } ?? [] }

  /// What the chosen plugin was trained to follow.
  public var natural: Follow {
    switch plugin.flatMap({ generator?.pipeline.plugins[$0]?.condition }) {
    case "canny": .edges
    case "face_landmark": .face
    default: .picture
    }
  }

  /// A photograph as the chosen plugin's condition; nothing where the library gave none.
  public func take(_ photograph: Data?) async {
    guard let side = generator?.pipeline.imageSize else { return }
    do {
      let (picture, how) = (try await read(photograph, decoder), follow ?? natural)
      switch how {
      case .edges: condition = await Task.detached { Canny.edges(picture.square(side)) }.value
      case .face: condition = try await finder.only(picture).outline.draw(in: picture, size: side)
      case .picture: condition = await Task.detached { picture.square(side) }.value
      }
      if case .failed = state { state = .idle }
    } catch { state = .failed(line(of: error)) }
  }

  /// Lines by finger, in parts of the pad, as white lines on black.
  public func sketch(_ lines: [[SIMD2<Double>]]) {
    guard let side = generator?.pipeline.imageSize else { return }
    var canvas = Canvas(width: side, height: side)
    for line in lines {
      let places = line.map { point -> Canvas.Place in
        let pixel = (point * Double(side)).clamped(lowerBound: SIMD2(0, 0), upperBound: SIMD2(repeating: Double(side - 1)))
        return Canvas.Place(x: Int(pixel.x), y: Int(pixel.y))
      }
      for (one, other) in zip(places, places.dropFirst()) { canvas.line(one, other, SIMD3(255, 255, 255), thickness: 1) }
    }
    condition = canvas.picture
  }

  public func draw() async {
    guard let generator, let choice else { return state = .failed("No base is open; open a folder that unplug export wrote.") }
    do {
      let order = try order(generator)
      guard let opener = openers.first(where: { $0.delegates.contains(choice.delegate) && $0.runtime.hasPrefix(choice.target) }) else {
        throw Failure("\(choice)", "this app was built without it", "Choose another")
      }
      hint = try told(order.prompt, generator.pipeline)
      state = .drawing(nil)
      let (painter, openers, seen) = (self.painter, self.openers, AsyncStream.makeStream(of: DrawStep.self))
      let task = Task {
        defer { seen.continuation.finish() }
        let drawn = try await painter.draw(generator, order, choice, opener) { seen.continuation.yield($0) }
        return (drawn.picture, await painter.mark(drawn.picture, generator, openers))
      }
      self.task = task
      for await step in seen.stream { state = .drawing(step) }
      let (picture, said) = try await task.value
      (state, mark) = (.drawn(picture), said)
    } catch is CancellationError { state = .stopped } catch { state = .failed(line(of: error)) }
  }

  public func stop() { task?.cancel() }

  private func order(_ generator: Generator) throws -> Order {
    guard let number = UInt64(seed) else { throw Failure("The seed", "it is not a whole number", "Use 0 to 18446744073709551615") }
    var order = Order(prompt: prompt, seed: number, defaults: generator.pipeline.defaults)
    (order.steps, order.guidance, order.solver) = (steps, guidance, solver)
    order.lora = try generator.rows(variant, prompt: prompt)
    if let plugin {
      guard let condition else {
        throw Failure("The plugin \(plugin)", "it has nothing to follow", "Sketch something, or choose a photograph")
      }
      order.steers = [Steer(plugin: plugin, condition: condition, strength: Float(strength))]
    }
    return order
  }

  private func told(_ prompt: String, _ pipeline: Pipeline) throws -> String? {
    let encoded = try pipeline.tokenizer.encode(prompt)
    let packs = pipeline.packs(in: prompt).map(\.word)
    let taught = Set(packs.flatMap(PackWords.of))
    let unknown = encoded.spelled.filter { !taught.isSuperset(of: PackWords.of($0)) }
    var lines = packs.isEmpty ? [] : ["Packs: \(packs.joined(separator: ", "))."]
    if encoded.cut {
      lines.append("The base reads only the beginning of these words.")
    } else if !unknown.isEmpty {
      lines.append("The base may not know these words: \(unknown.prefix(5).joined(separator: ", ")).")
    }
    return lines.isEmpty ? nil : lines.joined(separator: " ")
  }
}
