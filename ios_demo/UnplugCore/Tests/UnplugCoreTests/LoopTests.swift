import Foundation
import UnplugOnnx
import XCTest

@testable import UnplugCore

/// A network that is a formula of tests/sdk/drawing/device/toy.py.
final class Formula: Engine {
  let iospec: IOSpec
  var delegateGot: String? { nil }
  private let formula: (Tensors) -> Tensors

  init(_ part: Part, _ formula: @escaping (Tensors) -> Tensors) { (iospec, self.formula) = (part.iospec, formula) }
  func run(_ inputs: Tensors) throws -> Tensors { formula(inputs) }
}

private func mean(_ values: Values?) -> Float {
  let own = values?.floats ?? []
  return own.reduce(0, +) / Float(own.count)
}

func toyEngines(_ pipeline: Pipeline) -> [String: any Engine] {
  let text = Formula(pipeline.textEncoder) { given in
    guard case .ints(let ids)? = given["input_ids"] else { return [:] }
    return ["hidden_states": .floats(ids.flatMap { [Float](repeating: Float($0) / 1000, count: 4) })]
  }
  let unet = Formula(pipeline.unet) { given in
    let time = given["timestep"]!.floats![0] / 1e4
    let moved = given["sample"]!.floats!.map { $0 * 0.5 + time + mean(given["adapter_res_samples_00"]) }
    let (told, untold) = (tanh(mean(given["encoder_hidden_states"]) * 0.1), tanh(mean(given["negative_hidden_states"]) * 0.1))
    return ["noise_pred": .floats(moved.map { $0 + told }), "noise_pred_negative": .floats(moved.map { $0 + untold })]
  }
  let decoder = Formula(pipeline.decoder) { given in
    let latent = given["latents"]!.floats!
    let plane = (0..<256).map { (place: Int) -> Float in
      let at = place / 16 / 8 * 2 + place % 16 / 8
      return 1 / (1 + exp(-(latent[at] + latent[at + 4]) / 2))
    }
    return ["image": .floats(plane + plane + plane)]
  }
  let canny = Formula(pipeline.plugins["canny"]!.part) { given in
    ["adapter_res_samples_00": .floats([Float](repeating: mean(given["condition"]), count: 12))]
  }
  return ["text_encoder": text, "unet": unet, "decoder": decoder, "plugins.canny": canny]
}

/// An order of a file of vectors; a variant is read from the generator.
func order(_ item: Json, _ pipeline: Pipeline, _ condition: Picture, _ generator: Generator? = nil) throws -> Order {
  let steers = item["strength"]?.double.map { [Steer(plugin: "canny", condition: condition, strength: Float($0))] } ?? []
  let variant = item["variant"]?.string
  var order = Order(prompt: try item.words("prompt"), steers: steers, defaults: pipeline.defaults(of: variant))
  if let generator { order.lora = try generator.rows(variant, prompt: order.prompt) }
  order.seed = try XCTUnwrap(UInt64(item.words("seed")))
  order.negative = item["negative"]?.string ?? ""
  order.steps = item["steps"]?.int ?? order.steps
  order.guidance = item["guidance"]?.double ?? order.guidance
  order.solver = item["solver"]?.string.flatMap(Solver.init) ?? order.solver
  return order
}

final class LoopTests: XCTestCase {
  func testWholePicturesOfTheToy() throws {
    let pipeline = try Pipeline(vector("loop/pipeline.json"))
    let file = try vectorJson("loop/pictures.json")
    let condition = Picture(width: 16, height: 16, rgb: try file.data("condition"))
    let loop = Loop(pipeline, toyEngines(pipeline))
    for item in try file.items("orders") {
      var steps = 0
      let drawn = try loop.draw(order(item, pipeline, condition)) { steps = $0.done }
      let wanted = try item.doubles("latent")
      assertNear(drawn.latent, wanted, absolute: try file.number("tolerance") * wanted.map(abs).max()!, "latent")
      XCTAssertEqual(drawn.prompt.tokens, try item.whole("tokens"))
      XCTAssertEqual(steps, item["steps"]?.int ?? 4)
      let far = zip(drawn.picture.rgb, try item.data("rgb")).filter { abs(Int($0) - Int($1)) > 1 }.count
      XCTAssertEqual(far, 0, "no byte is off by more than its rounding")
    }
  }

  func testWhatTheLoopRefuses() throws {
    let pipeline = try Pipeline(vector("loop/pipeline.json"))
    let loop = Loop(pipeline, toyEngines(pipeline))
    let black = Picture(width: 16, height: 16, rgb: [UInt8](repeating: 0, count: 768))
    let small = Picture(width: 1, height: 2, rgb: [0, 0, 0, 1, 1, 1])
    var order = Order(prompt: "a child", defaults: pipeline.defaults)
    func refused(_ change: (inout Order) -> Void, _ what: String) {
      var other = order
      change(&other)
      XCTAssertThrowsError(try loop.draw(other), what)
    }
    refused({ $0.guidance = 0.5 }, "guidance")
    refused({ $0.steps = 0 }, "steps")
    refused({ ($0.guidance, $0.negative) = (1, "sad") }, "negative without guidance")
    refused({ $0.steers = [Steer(plugin: "canny", condition: black)] }, "an empty condition")
    refused({ $0.steers = [Steer(plugin: "canny", condition: small)] }, "a small condition")
    refused({ $0.steers = [Steer(plugin: "depth", condition: small)] }, "no such plugin")
    struct Stop: Error {}
    order.steps = 4
    XCTAssertThrowsError(try loop.draw(order) { if $0.done == 2 { throw Stop() } }) { XCTAssertTrue($0 is Stop) }
  }

  func testAPipelineThatDoesNotHold() throws {
    let raw = try vectorJson("loop/pipeline.json")
    let fields = try XCTUnwrap(raw.object)
    func changed(_ key: ExactText, _ value: Json) -> Data { Data(canonical(.object(fields.merging([key: value]) { $1 }))) }
    XCTAssertNoThrow(try Pipeline(Data(canonical(raw))))
    let wrong: [(ExactText, Json)] = [
      ("schema", .text("unplug-pipeline/2")), ("more", .null), ("noise", .text("torch")), ("image_size", .number(32)),
      ("latent_shape", .list([.number(2), .number(2), .number(4)])), ("residuals", .list([])), ("unet", .null),
      ("defaults", .object(["steps": .number(0), "guidance": .number(3), "solver": .text("ddim")])), ("decoder", fields["unet"]!),
    ]
    for (key, value) in wrong { XCTAssertThrowsError(try Pipeline(changed(key, value)), "\(key)") }
    XCTAssertThrowsError(try Pipeline(Data("[".utf8)))
    for path in ["../x.tflite", "/x", "a//b", ""] {
      let text = String(decoding: canonical(raw), as: UTF8.self)
      let other = text.replacingOccurrences(of: "decoder/decoder.fp32.tflite", with: path)
      XCTAssertThrowsError(try Pipeline(Data(other.utf8)), path)
    }
  }

  func testVariantsThatDoNotHold() throws {
    let text = String(decoding: try vector("app/variants/pipeline.json"), as: UTF8.self)
    let pipeline = try Pipeline(Data(text.utf8))
    XCTAssertEqual(pipeline.lora?.width, 4)
    XCTAssertEqual(pipeline.defaults(of: "few-steps").steps, 2)
    XCTAssertEqual(pipeline.defaults(of: "style").steps, pipeline.defaults.steps)
    let harmed = [
      ("\"rank\": 3", "\"rank\": 4"), ("\"rank\": 3", "\"rank\": 2000000000"), ("\"fan_in\": 2", "\"fan_in\": 0"),
      ("\"fan_in\": 2", "\"fan_in\": 3"), ("\"name\": \"lora\"", "\"name\": \"other\""), ("\"lora\": {", "\"lores\": {"),
      ("\"few-steps\": {", "\"../x\": {"), ("variants/few-steps.lora", "../few-steps.lora"), ("\"bytes\": 16", "\"bytes\": 20"),
      ("\"bytes\": 16", "\"bytes\": 64"), ("\"bytes\": 16", "\"bytes\": 0"), ("\"guidance\": 1.0", "\"guidance\": 0.5"),
      ("\"solver\": \"dpm++\"", "\"solver\": \"euler\""), ("\"variants\": {", "\"variants\": [], \"more\": {"),
      ("\"eye patch\"", "\"Clown Noses\""), ("\"eye patch\"", "\"eye  patch\""), ("\"eye patch\"", "7"),
    ]
    for (from, to) in harmed {
      let changed = text.replacingOccurrences(of: from, with: to)
      XCTAssertNotEqual(changed, text, from)
      XCTAssertThrowsError(try Pipeline(Data(changed.utf8)), "\(from) to \(to)")
    }
  }

  func testFilesOfVariantsThatDoNotHold() throws {
    let folder = temporary()
    defer { try? FileManager.default.removeItem(at: folder) }
    try? FileManager.default.removeItem(at: folder)
    try FileManager.default.copyItem(at: vectors.appendingPathComponent("app/variants"), to: folder)
    let generator = try Generator(folder)
    func rows(_ variant: String?, _ prompt: String = "a child") throws -> [Float] { try generator.rows(variant, prompt: prompt) }
    XCTAssertEqual(try rows("few-steps"), [0.5, -0.25, 0.75, 1])
    XCTAssertEqual(try rows("style").count, 8)
    XCTAssertEqual(try rows(nil), [])
    XCTAssertThrowsError(try rows("other"))
    let (patch, nose) = ([0.5, 1, -0.75, 0.25] as [Float], [-1, 0.25, 0.5, 0.5] as [Float])
    XCTAssertEqual(try rows(nil, "an Eye-Patch, clown noses"), nose + patch)
    XCTAssertEqual(try rows("few-steps", "eye patches"), [0.5, -0.25, 0.75, 1] + patch)
    XCTAssertEqual(try rows("eye-patch", "a clown nose, an eye patch"), patch + nose)
    XCTAssertThrowsError(try rows("eye-patch")) { XCTAssertTrue("\($0)".contains("by saying eye patch"), "\($0)") }
    XCTAssertThrowsError(try rows("style", "a clown nose, an eye patch")) {
      XCTAssertTrue("\($0)".contains("style and clown-nose and eye-patch") && "\($0)".contains("4 ranks"), "\($0)")
    }
    let file = folder.appendingPathComponent("variants/few-steps.lora")
    let good = try Data(contentsOf: file)
    for body in [good.dropLast(4), good + good, Data(count: 16)] {
      try Data(body).write(to: file)
      XCTAssertThrowsError(try rows("few-steps"))
    }
    try FileManager.default.removeItem(at: file)
    XCTAssertThrowsError(try rows("few-steps"))
  }

  /// A base that ships, by ONNX Runtime's C library, compared with what Python drew: see tests/ios/picture.py.
  func testAPictureOfARealBase() throws {
    let environment = ProcessInfo.processInfo.environment
    guard let folder = environment["UNPLUG_IOS_PICTURE"].map({ URL(fileURLWithPath: $0) }), !folder.path.isEmpty,
      environment["UNPLUG_IOS_PICTURE"] != ""
    else {
      throw XCTSkip("UNPLUG_IOS_PICTURE names no folder of tests/ios/picture.py")
    }
    let told = try looseJson(Data(contentsOf: folder.appendingPathComponent("expected.json")))
    let generator = try Generator(URL(fileURLWithPath: environment["UNPLUG_IOS_FILES"] ?? told.words("files")))
    let (pipeline, opener) = (generator.pipeline, try OnnxOpener(library: environment["UNPLUG_ORT"]))
    var engines: [String: any Engine] = [:]
    for (name, file) in try XCTUnwrap(pipeline.files(target: "onnx", precision: "fp32")) {
      engines[name] = try opener.open(generator.checked(file), iospec: pipeline.parts[name]!.iospec, delegate: "cpu", threads: 1)
    }
    let side = pipeline.imageSize
    let condition = Picture(width: side, height: side, rgb: [UInt8](try Data(contentsOf: folder.appendingPathComponent("condition.rgb"))))
    func floats(_ name: String) throws -> [Float] {
      UInt32.read([UInt8](try Data(contentsOf: folder.appendingPathComponent(name)))[...]).map { Float(bitPattern: $0) }
    }
    for (number, item) in try told.items("orders").enumerated() {
      let steers = item["plugin"]?.string.map { [Steer(plugin: $0, condition: condition)] } ?? []
      let order = Order(
        prompt: try item.words("prompt"), seed: try XCTUnwrap(UInt64(item.words("seed"))), steers: steers, defaults: pipeline.defaults)
      let drawn = try Loop(pipeline, engines).draw(order)
      let (wanted, latent) = (try floats("\(number)-decoded.f32"), try floats("\(number)-latent.f32"))
      let (picture, behind) = (Difference(reference: wanted, output: drawn.decoded), Difference(reference: latent, output: drawn.latent))
      let bytes = [UInt8](try Data(contentsOf: folder.appendingPathComponent("\(number).rgb")))
      let off = zip(bytes, drawn.picture.rgb).filter { $0 != $1 }.count
      func said(_ found: Difference) -> String { found.exact ? "exact" : found.psnr.map { "\(oneDigit($0)) dB" } ?? found.reason ?? "?" }
      let (runtime, bytesOff) = (opener.version ?? "?", "\(off) of \(bytes.count) bytes differ")
      print("picture \(number), ONNX Runtime \(runtime): \(said(picture)), latent \(said(behind)), \(bytesOff)")
      XCTAssertNil(picture.verdict(80))
      let header = Data("P6 \(side) \(side) 255\n".utf8)
      try? (header + Data(drawn.picture.rgb)).write(to: folder.appendingPathComponent("swift-\(number).ppm"))
    }
  }
}
