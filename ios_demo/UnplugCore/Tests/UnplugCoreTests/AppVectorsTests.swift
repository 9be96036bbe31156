import Foundation
import UnplugOnnx
import XCTest

@testable import UnplugCore

func picture(_ item: Json) throws -> Picture {
  Picture(width: try item.whole("width"), height: try item.whole("height"), rgb: try item.data("rgb"))
}

/// Skips where no library is named.
func onnx() throws -> OnnxOpener {
  guard let library = ProcessInfo.processInfo.environment["UNPLUG_ORT"], !library.isEmpty else {
    throw XCTSkip("UNPLUG_ORT names no libonnxruntime")
  }
  return try OnnxOpener(library: library)
}

/// tests/vectors/app: what an app computes around a model, and whole networks where ONNX Runtime is here (`UNPLUG_ORT`).
final class AppVectorsTests: XCTestCase, @unchecked Sendable {
  private func packed(_ item: Json, _ key: ExactText) throws -> [Float] {
    UInt32.read(try item.data(key)[...]).map { Float(bitPattern: $0) }
  }

  func testSquaresAndBoxes() throws {
    let cases = try vectorJson("app/pictures.json").items("cases")
    for item in cases {
      var seen = try picture(item)
      if let box = item["box"]?.list?.compactMap(\.int), box.count == 4 {
        seen = try XCTUnwrap(seen.cropped(left: box[0], top: box[1], right: box[2], bottom: box[3]))
      }
      let size = try item.whole("size")
      XCTAssertEqual(seen.square(size).rgb, try item.data("square"), "\(seen.width) x \(seen.height) to \(size)")
    }
    XCTAssertEqual(cases.count, 11)
  }

  func testTensorsOfPictures() throws {
    let file = try vectorJson("app/pictures.json")
    let (seen, cases) = (try picture(file.at("picture")), try file.items("tensors"))
    for item in cases {
      let spec = try item.at("spec")
      let (layout, shape) = (try spec.words("layout"), try spec.ints("shape"))
      let values = conditionInput(seen, range: spec["range"]?.list?.compactMap(\.double) ?? [0, 1])
      let laid = try relaid(values, shape: [1, 3, seen.height, seen.width], from: "NCHW", to: layout)
      XCTAssertEqual(laid.count, shape.reduce(1, *))
      assertNear(laid, try item.doubles("values"), absolute: 1e-7, "\(layout)")
    }
    XCTAssertEqual(cases.count, 8)
  }

  func testFacesAreMediaPipes() throws {
    let cases = try vectorJson("app/faces.json").items("cases")
    for item in cases {
      let raw = try packed(item, "points").map(Double.init)
      let points = stride(from: 0, to: raw.count, by: 2).map { SIMD2(raw[$0], raw[$0 + 1]) }
      let (width, height) = (try item.whole("width"), try item.whole("height"))
      let photograph = Picture(width: width, height: height, rgb: [UInt8](repeating: 0, count: 3 * width * height))
      let style = try XCTUnwrap(FaceStyle(rawValue: item.words("style")))
      let drawn = try FaceMesh.draw(points, in: photograph, size: item.whole("size"), style: style)
      let lit = stride(from: 0, to: drawn.rgb.count, by: 3).filter { drawn.rgb[$0] | drawn.rgb[$0 + 1] | drawn.rgb[$0 + 2] != 0 }.count
      XCTAssertEqual(lit, try item.whole("lit"), "\(style) \(drawn.width)")
      XCTAssertEqual(sha256Hex(Data(drawn.rgb)), try item.words("sha256"), "\(style) \(drawn.width)")
    }
    XCTAssertEqual(cases.count, 8)
    let seen = Picture(width: 1, height: 1, rgb: [0, 0, 0])
    XCTAssertThrowsError(try FaceMesh.draw([], in: seen, size: 8))
  }

  /// Vision's outlines in a plugin's colours: each part where it lies, and the person's left on the right.
  func testAnOutlineByVision() throws {
    let photograph = Picture(width: 64, height: 64, rgb: [UInt8](repeating: 0, count: 3 * 64 * 64))
    var outline = FaceOutline()
    outline.contour = [SIMD2(4, 20), SIMD2(32, 60), SIMD2(60, 20)]
    outline.eyes = [[SIMD2(38, 24), SIMD2(50, 24)], [SIMD2(14, 24), SIMD2(26, 24)]]
    outline.pupils = [SIMD2(20, 24), SIMD2(44, 24)]
    let drawn = try outline.draw(in: photograph, size: 512)
    func colour(_ x: Int, _ y: Int) -> [UInt8] { Array(drawn.rgb[3 * (y * 512 + x)..<3 * (y * 512 + x) + 3]) }
    XCTAssertEqual(colour(32 * 8, 60 * 8), [255, 255, 255], "the chin")
    XCTAssertEqual(colour(49 * 8, 24 * 8), [0, 255, 0], "the left eye is on the right")
    XCTAssertEqual(colour(15 * 8, 24 * 8), [0, 128, 255], "the right eye is on the left")
    XCTAssertEqual(colour(44 * 8 + 10, 24 * 8 - 9), [255, 128, 0], "the left iris")
    XCTAssertEqual(colour(20 * 8 + 10, 24 * 8 - 9), [0, 255, 255], "the right iris")
    XCTAssertThrowsError(try FaceOutline().draw(in: photograph, size: 64)) {
      XCTAssertTrue("\($0)".contains("nothing of the face lies in its centre square"), "\($0)")
    }
  }

  func testAges() throws {
    let file = try vectorJson("app/ages.json")
    let edges = try file.doubles("edges")
    for item in try file.items("cases") {
      let shares = softmax(try item.floats("age_logits").map(Double.init))
      let groups = try XCTUnwrap(item["groups"]?.object)
      XCTAssertEqual(groups.count, shares.count)
      for (place, share) in shares.enumerated() {
        let name = "\(ecmaScript(edges[place]))-\(ecmaScript(edges[place + 1]))"
        assertNear([share], [try XCTUnwrap(groups[ExactText(name)]?.double, name)], absolute: 1e-6, name)
      }
      XCTAssertEqual(try item.number("age"), try item.number("expected_age"))
    }
  }

  func testStatistics() throws {
    let file = try vectorJson("app/statistics.json")
    for run in try file.items("runs") {
      let (latencies, wanted) = (try run.doubles("latencies"), try run.at("summary"))
      let own = Summary(latencies)
      XCTAssertEqual(own.count, try wanted.whole("count"))
      XCTAssertEqual(own.p99 == nil, wanted["p99"]?.double == nil)
      for (key, value) in [
        ("p50", own.p50), ("p90", own.p90), ("p95", own.p95), ("mean", own.mean), ("std", own.std), ("min", own.min), ("max", own.max),
      ] as [(ExactText, Double)] { assertNear([value], [try wanted.number(key)], relative: 1e-9, absolute: 1e-12, "\(key)") }
      var sum = 0.0
      let ends = latencies.map { latency -> Double in
        sum += latency / 1e3
        return sum
      }
      let (found, windowsWanted) = (windows(ends: ends, latencies: latencies, count: 7), try run.items("windows"))
      XCTAssertEqual(found.map(\.count), try windowsWanted.map { try $0.whole("count") })
      for (one, other) in zip(found, windowsWanted) {
        let numbers = try ["start_s", "end_s", "p50", "p95"].map { try other.number($0) }
        assertNear([one.start, one.end, one.p50, one.p95], numbers, relative: 1e-9, absolute: 1e-12, "window")
      }
    }
    for item in try file.items("starts") {
      let medians = try item.doubles("medians")
      let typical = try XCTUnwrap(typicalLatency(medians))
      assertNear([typical.value], [try item.number("typical")], relative: 1e-9, "typical")
      assertNear([try XCTUnwrap(relativeSpread(medians))], [try item.number("spread")], relative: 1e-9, absolute: 1e-12, "spread")
      XCTAssertEqual(typical.ends == nil, item["typical_ends"]?.list == nil)
      if let ends = typical.ends, medians.count <= 31 { assertNear(ends, try item.doubles("typical_ends"), relative: 1e-5, "ends") }
    }
    for item in try file.items("parity") {
      let found = Difference(reference: try item.floats("reference"), output: try item.floats("output"))
      XCTAssertEqual(item["exact"], .bool(found.exact))
      XCTAssertEqual(found.psnr == nil, item["psnr_db"]?.double == nil)
      if let db = found.psnr { assertNear([db], [try item.number("psnr_db")], absolute: 1e-9, "dB") }
      XCTAssertEqual(found.verdict(60), item["verdict"]?.string)
    }
  }

  func testNumbersAsRfc8785WritesThem() throws {
    let cases = try vectorJson("app/numbers.json").items("cases")
    for item in cases {
      let pair = try XCTUnwrap(item.list).map { try XCTUnwrap($0.string) }
      XCTAssertEqual(ecmaScript(Double(bitPattern: try XCTUnwrap(UInt64(pair[0], radix: 16)))), pair[1])
    }
    XCTAssertEqual(cases.count, 688)
  }

  func testAPlanOfTheHarness() throws {
    let plan = try BenchPlan(vector("app/bench/plan.json"))
    XCTAssertEqual(plan.jobs.map(\.delegate), ["cpu", "gpu", "npu"])
    XCTAssertEqual([plan.threads, plan.warmup, plan.iterations, plan.starts], [2, 2, 12, 3])
    for job in plan.jobs where job.notRun == nil {
      let samples = try Sample.read(vectors.appendingPathComponent("app/bench/\(job.vectors)"), job.iospec)
      XCTAssertEqual(samples.count, 2)
    }
    XCTAssertEqual(plan.jobs.compactMap(\.notRun), ["nothing here has it"])
  }

  /// The harness's own plan, worked through as a phone does; `tests/ios/report.py` shows that the harness takes what is written.
  func testAPlanIsRunAsAPhoneDoes() throws {
    let opener = try onnx()
    let named = ProcessInfo.processInfo.environment["UNPLUG_IOS_BENCH"] ?? ""
    let around = named.isEmpty ? temporary() : URL(fileURLWithPath: named)
    defer { if named.isEmpty { try? FileManager.default.removeItem(at: around) } }
    try? FileManager.default.removeItem(at: around)
    try FileManager.default.createDirectory(at: around.appendingPathComponent("bench-old"), withIntermediateDirectories: true)
    let folder = around.appendingPathComponent("bench-new")
    try FileManager.default.copyItem(at: vectors.appendingPathComponent("app/bench"), to: folder)
    try HeadlessBench.run(folder, openers: [opener], platform: Platform(Clock()))
    XCTAssertEqual(try FileManager.default.contentsOfDirectory(atPath: around.path), ["bench-new"], "earlier ones are removed")
    let report = try looseJson(Data(contentsOf: folder.appendingPathComponent("report.json")))
    let rows = try report.items("rows")
    XCTAssertEqual(try rows.map { try $0.words("status") }, ["ok", "failed"])
    XCTAssertEqual(rows[0]["valid"], .bool(true))
    XCTAssertTrue(try rows[1].items("reasons")[0].string?.contains("ONNX Runtime runs on the processor here") ?? false)
    // And the report of an app that is killed after its first cold start.
    let plan = try BenchPlan(Data(contentsOf: folder.appendingPathComponent("plan.json")))
    let benchmark = Benchmark(plan, folder: folder, openers: [opener], platform: Platform(Clock()))
    var starts = 0
    benchmark.kept = { found in
      if benchmark.found[0]!.repeats.count == 1 && starts == 0 {
        starts += 1
        HeadlessBench.keep(found, in: folder)
      }
    }
    _ = benchmark.run()
    let partial = try looseJson(Data(contentsOf: folder.appendingPathComponent(HeadlessBench.partial))).items("rows")
    XCTAssertEqual(try partial[0].items("reasons")[0].string, "1 of 3 cold starts were timed: the rest is to come")
  }

  /// A generator among the vectors, its ONNX files opened, and what Python drew with them.
  private func tiny(_ name: String) throws -> (Generator, [String: any Engine], Json) {
    let opener = try onnx()
    let generator = try Generator(vectors.appendingPathComponent("app/\(name)"))
    let parts = generator.pipeline.parts
    var engines: [String: any Engine] = [:]
    for (part, file) in try XCTUnwrap(generator.pipeline.files(target: "onnx", precision: "fp32")) {
      engines[part] = try opener.open(generator.checked(file), iospec: parts[part]!.iospec, delegate: "cpu", threads: 1)
    }
    return (generator, engines, try vectorJson("app/\(name)/pictures.json"))
  }

  private func shown(_ pipeline: Pipeline, _ file: Json) throws -> Picture {
    Picture(width: pipeline.imageSize, height: pipeline.imageSize, rgb: try file.data("condition"))
  }

  func testATinyGeneratorDrawsPythonsPictures() throws {
    let (generator, engines, file) = try tiny("generator")
    let (pipeline, orders) = (generator.pipeline, try file.items("orders"))
    let condition = try shown(pipeline, file)
    for item in orders {
      let asked = try order(item, pipeline, condition)
      let drawn = try Loop(pipeline, engines).draw(asked)
      XCTAssertEqual(drawn.prompt.tokens, try item.whole("tokens"))
      let pairs = [("decoded", drawn.decoded), ("latent", drawn.latent)] as [(ExactText, [Float])]
      let found = try pairs.map { key, own in Difference(reference: try packed(item, key), output: own) }
      func said(_ one: Difference) -> String { one.exact ? "equal" : one.psnr.map { "\(oneDigit($0)) dB" } ?? "?" }
      print("tiny, '\(asked.prompt.prefix(30))', \(asked.steps) steps: picture \(said(found[0])), latent \(said(found[1])) to Python's")
      for one in found { XCTAssertNil(one.verdict(try file.number("min_db"))) }
    }
    XCTAssertEqual(orders.count, 5)
    var other = try order(orders[4], pipeline, condition)
    other.steers = [Steer(plugin: "canny", condition: condition, strength: 0.3)]
    let apart = Difference(reference: try packed(orders[4], "decoded"), output: try Loop(pipeline, engines).draw(other).decoded)
    XCTAssertNotNil(apart.verdict(try file.number("min_db")), "a little of anything else is another picture")
  }

  /// The bare base first, then each variant with what suits it.
  func testATinyGeneratorDrawsItsVariantsAsPythonDoes() throws {
    let (generator, engines, file) = try tiny("variants")
    let (pipeline, orders) = (generator.pipeline, try file.items("orders"))
    let condition = try shown(pipeline, file)
    for item in orders {
      let asked = try order(item, pipeline, condition, generator)
      let drawn = try Loop(pipeline, engines).draw(asked)
      for (key, own) in [("decoded", drawn.decoded), ("latent", drawn.latent)] as [(ExactText, [Float])] {
        XCTAssertNil(Difference(reference: try packed(item, key), output: own).verdict(try file.number("min_db")), "\(asked.prompt) \(key)")
      }
    }
    XCTAssertEqual(orders.count, 8)
  }

  /// Its UNet is asked about the prompt alone.
  func testATinyGeneratorWithoutGuidanceDrawsAsPythonDoes() throws {
    let (generator, engines, file) = try tiny("unguided")
    let (pipeline, orders) = (generator.pipeline, try file.items("orders"))
    let condition = try shown(pipeline, file)
    XCTAssertFalse(pipeline.isGuided)
    for item in orders {
      let asked = try order(item, pipeline, condition)
      let drawn = try Loop(pipeline, engines).draw(asked)
      for (key, own) in [("decoded", drawn.decoded), ("latent", drawn.latent)] as [(ExactText, [Float])] {
        XCTAssertNil(Difference(reference: try packed(item, key), output: own).verdict(try file.number("min_db")), "\(asked.prompt) \(key)")
      }
    }
    XCTAssertEqual(orders.count, 2)
    var other = try order(orders[0], pipeline, condition)
    other.guidance = 2
    XCTAssertThrowsError(try Loop(pipeline, engines).draw(other))
    let text = String(decoding: try vector("app/unguided/pipeline.json"), as: UTF8.self)
    let harmed = [
      ("\"guidance\": 1.0", "\"guidance\": 3.0"), ("\"name\": \"timestep\"", "\"name\": \"time\""),
      ("\"name\": \"encoder_hidden_states\"", "\"name\": \"negative_hidden_states\""),
    ]
    for (from, to) in harmed {
      let other = text.replacingOccurrences(of: from, with: to)
      XCTAssertNotEqual(other, text, from)
      XCTAssertThrowsError(try Pipeline(Data(other.utf8)), to)
    }
  }

  /// The screen offers the variants, takes over what suits them, and draws another picture with each.
  @MainActor func testTheDrawScreenWithVariants() async throws {
    let screen = DrawScreen(openers: [try onnx()], finder: Faces(found: []), decoder: MadeUp())
    await screen.open(vectors.appendingPathComponent("app/variants"))
    XCTAssertEqual(screen.variants, ["few-steps", "style"])
    screen.prompt = "a child"
    var drawn: [Picture] = []
    for (variant, steps) in [(nil, 4), ("few-steps", 2), ("style", 4)] as [(String?, Int)] {
      screen.variant = variant
      XCTAssertEqual(screen.steps, steps)
      await screen.draw()
      guard case .drawn(let picture) = screen.state else { return XCTFail("\(screen.state)") }
      XCTAssertFalse(drawn.contains(picture))
      drawn.append(picture)
    }
    XCTAssertEqual(screen.packs, ["clown nose", "eye patch"])
    (screen.variant, screen.prompt) = (nil, "a child, Eye-Patches")
    await screen.draw()
    XCTAssertEqual(screen.hint, "Packs: eye patch.")
    screen.prompt = "an eye patch and a clown nose"
    screen.variant = "style"
    await screen.draw()
    guard case .failed(let why) = screen.state else { return XCTFail("\(screen.state)") }
    XCTAssertTrue(why.contains("style and clown-nose and eye-patch"), why)
    await screen.open(vectors.appendingPathComponent("app/generator"))
    XCTAssertNil(screen.variant)
    XCTAssertEqual(screen.variants, [])
  }

  /// The app's first walk: a key, a bundle, a photograph, an age; then its benchmark.
  @MainActor func testASignedBundleAnswersAsInPython() async throws {
    let (opener, item) = (try onnx(), try vectorJson("app/bundle.json"))
    let (place, trust) = try bundleFolder("../app/bundle")
    let caches = temporary()
    defer { for folder in [place, caches] { try? FileManager.default.removeItem(at: folder) } }
    let screen = BundleScreen(Remembered(), now: { 1_796_083_200 })
    screen.trust(trust)
    await screen.open(place)
    guard case .ready(let facts) = screen.state else { return XCTFail("\(screen.state)") }
    XCTAssertEqual(facts.forgotten, "2 pictures were forgotten with the method retrain at 4.0 % of the cost of retraining")
    XCTAssertEqual(facts.gates.map(\.text), ["140 dB, must be >= 100 dB"])
    let photograph = try picture(item.at("picture"))
    let facing = PhotographFacts(width: photograph.width, height: photograph.height, orientation: 1)
    let decoder = MadeUp(found: facing, stored: photograph)
    let models = caches.appendingPathComponent("models")
    try FileManager.default.createDirectory(at: models.appendingPathComponent("an-older-bundle"), withIntermediateDirectories: true)
    let age = AgeScreen(openers: [opener], finder: Faces(found: []), decoder: decoder, folder: models)
    await age.look(at: jpeg, screen.bundle)
    guard case .answer(let answer) = age.state else { return XCTFail("\(age.state)") }
    assertNear([try XCTUnwrap(answer.years)], [try item.number("expected_age")], absolute: 1e-4, "years")
    XCTAssertEqual(answer.shares.count, 3)
    XCTAssertNil(answer.decision)
    let square = "This bundle does not say where the eyes belong, so the model saw the centre square."
    func told(_ member: String) -> String {
      "\(square) The member \(member) answers: the best of its family that takes at most 33 ms."
    }
    XCTAssertEqual(age.note, told("nano"), "the other takes longer than a frame where it was released")
    XCTAssertNotNil(age.seen)
    XCTAssertEqual(try FileManager.default.contentsOfDirectory(atPath: models.path), [facts.id])
    let folder = caches.appendingPathComponent("benchmark")
    let bench = BenchScreen(openers: [opener], folder: folder) { Platform(Clock()) }
    await bench.run(screen.bundle, starts: 2, iterations: 3)
    XCTAssertEqual(bench.state, .done)
    XCTAssertEqual(bench.lines.map(\.note), ["", ""], "parity holds against the bundle's own test vectors, and from run to run")
    XCTAssertEqual(bench.lines.map(\.file), ["age.fp32.onnx", "nano/age.fp32.onnx"])
    XCTAssertEqual(bench.points.count, 12)
    age.measured = { bench.measured }
    await age.look(at: jpeg, screen.bundle)
    XCTAssertEqual(age.note, told("small"), "what this phone has measured counts more")
    XCTAssertEqual(bench.thermal, "nominal")
    XCTAssertFalse(FileManager.default.fileExists(atPath: folder.path))
  }

  /// A classifier's bundle: a label and its probability, and nothing of ages.
  @MainActor func testAPhotographGetsALabel() async throws {
    let (opener, item) = (try onnx(), try vectorJson("app/labelled.json"))
    let (bundle, photograph) = (try verified("app/labelled.json"), try picture(item.at("picture")))
    let facts = PhotographFacts(width: photograph.width, height: photograph.height, orientation: 1)
    let models = temporary()
    defer { try? FileManager.default.removeItem(at: models) }
    let decoder = MadeUp(found: facts, stored: photograph)
    let screen = AgeScreen(openers: [opener], finder: Faces(found: []), decoder: decoder, folder: models)
    await screen.look(at: jpeg, bundle)
    guard case .answer(let answer) = screen.state else { return XCTFail("\(screen.state)") }
    try assertLabels(answer, item.items("labels"), absolute: 1e-5)
    XCTAssertEqual(answer.headline, "\(answer.shares[0].name), \(answer.shares[0].percent) %")
    XCTAssertNil(screen.note ?? answer.said ?? answer.held)
  }

  private func assertLabels(_ answer: Answer, _ wanted: [Json], absolute: Double) throws {
    XCTAssertEqual(answer.shares.map(\.name), wanted.map { $0.list?[0].string })
    assertNear(answer.shares.map(\.probability), try wanted.map { try XCTUnwrap($0.list?[1].double) }, absolute: absolute, "labels")
    XCTAssertNil(answer.years)
  }

  func testLabels() throws {
    let file = try vectorJson("app/labels.json")
    let signed = try XCTUnwrap(verified("app/labelled.json").manifest.object)
    func predictor(_ classes: Json) throws -> Predictor {
      try Predictor(manifest: .object(signed.merging(["postprocessing": .object(["classes": classes])]) { $1 }))
    }
    let known = try predictor(file.at("classes"))
    for item in try file.items("cases") {
      let answer = try known.answer(["logits": .floats(item.floats("logits"))], file: "")
      try assertLabels(answer, item.items("labels"), absolute: file.number("tolerance"))
    }
    for wrong: [Float] in [[1, 2], [.nan, 0, 0, 0, 0, 0, 0]] {
      XCTAssertThrowsError(try known.answer(["logits": .floats(wrong)], file: ""))
    }
    XCTAssertThrowsError(try predictor(.list([.number(1)])).answer(["logits": .floats([0])], file: ""))
  }

  /// A bundle that says where the eyes belong and decides: from a photograph and its eyes to over, under or unsure.
  @MainActor func testAPhotographGoesTheWholeWayToADecision() async throws {
    let (opener, item) = (try onnx(), try vectorJson("app/aligned.json"))
    let (bundle, photograph) = (try verified("app/aligned.json"), try picture(item.at("picture")))
    var outline = FaceOutline()
    outline.eyes = try item.items("eyes").map { eye in
      let place = SIMD2(try XCTUnwrap(eye.list?[0].double), try XCTUnwrap(eye.list?[1].double))
      return [place - SIMD2(2, 0), place + SIMD2(2, 0)]
    }
    let facts = PhotographFacts(width: photograph.width, height: photograph.height, orientation: 1)
    let (finder, decoder) = (Faces(found: [FoundFace(points: [], outline: outline)]), MadeUp(found: facts, stored: photograph))
    let models = temporary()
    defer { try? FileManager.default.removeItem(at: models) }
    let age = AgeScreen(openers: [opener], finder: finder, decoder: decoder, folder: models)
    await age.look(at: jpeg, bundle)
    guard case .answer(let answer) = age.state else { return XCTFail("\(age.state)") }
    assertNear([try XCTUnwrap(answer.years)], [try item.number("expected_age")], absolute: 1e-4, "years")
    XCTAssertEqual(answer.decision?.rawValue, try item.at("decision").words("answer"))
    XCTAssertEqual(answer.said, "Under 18")
    XCTAssertTrue(try XCTUnwrap(answer.held).hasSuffix("(95 % confidence)."))
    XCTAssertNil(age.note)
  }

  /// Words, a photograph's edges, a face's and a sketch: each makes another picture, and a stop stops.
  @MainActor func testTheDrawScreen() async throws {
    let photograph = Picture(
      width: 32, height: 32, rgb: (0..<32 * 32).flatMap { place in [UInt8](repeating: place % 32 < 16 ? 0 : 255, count: 3) })
    var outline = FaceOutline()
    outline.contour = [SIMD2(4, 4), SIMD2(28, 28)]
    let decoder = MadeUp(found: PhotographFacts(width: 32, height: 32, orientation: 1), stored: photograph)
    let finder = Faces(found: [FoundFace(points: [SIMD2(0, 0), SIMD2(32, 32)], outline: outline)])
    let screen = DrawScreen(openers: [try onnx()], finder: finder, decoder: decoder)
    await screen.open(vectors.appendingPathComponent("app/generator"))
    XCTAssertEqual(screen.choice, DrawChoice(target: "onnx", precision: "fp32", delegate: "cpu"))
    XCTAssertEqual(screen.plugins, ["canny"])
    screen.prompt = "a child"
    await screen.draw()
    guard case .drawn(let plain) = screen.state else { return XCTFail("\(screen.state)") }
    screen.plugin = "canny"
    XCTAssertEqual(screen.natural, .edges)
    await screen.draw()
    guard case .failed(let line) = screen.state else { return XCTFail("\(screen.state)") }
    XCTAssertTrue(line.contains("it has nothing to follow"), line)
    var drawn = [plain]
    for follow in [nil, .face, .picture] as [Follow?] {
      screen.follow = follow
      await screen.take(jpeg)
      await screen.draw()
      guard case .drawn(let picture) = screen.state else { return XCTFail("\(screen.state)") }
      drawn.append(picture)
    }
    screen.sketch([[SIMD2(0.1, 0.1), SIMD2(0.9, 0.2)]])
    await screen.draw()
    guard case .drawn(let sketched) = screen.state else { return XCTFail("\(screen.state)") }
    drawn.append(sketched)
    for (place, one) in drawn.enumerated() { XCTAssertFalse(drawn[..<place].contains(one), "\(place)") }
    screen.seed = "1.5"
    await screen.draw()
    XCTAssertEqual(screen.state, .failed("The seed: it is not a whole number. Use 0 to 18446744073709551615."))
    screen.seed = "1"
    await screen.take(Data("no picture".utf8))
    XCTAssertEqual(screen.state, .failed("The photograph: its file is not a picture. Choose a JPEG, PNG or HEIC file."))
  }

  /// Stopped in its third step: what was begun ends, and no picture comes.
  @MainActor func testAStopInTheMiddle() async throws {
    let opener = Halting(opener: try onnx())
    let screen = DrawScreen(openers: [opener], finder: Faces(found: []), decoder: MadeUp())
    await screen.open(vectors.appendingPathComponent("app/generator"))
    let drawing = Task { await screen.draw() }
    while screen.state != .drawing(.step(2, 4)) {
      if case .failed(let line) = screen.state { return XCTFail(line) }
      try await Task.sleep(nanoseconds: 1_000_000)
    }
    screen.stop()
    opener.gate.signal()
    await drawing.value
    XCTAssertEqual(screen.state, .stopped)
  }
}

/// Waits in the third step of a UNet until it is let go on.
struct Halting: Opener {
  let opener: OnnxOpener
  let gate = DispatchSemaphore(value: 0)
  var runtime: String { opener.runtime }
  var version: String? { opener.version }
  var delegates: [String] { opener.delegates }

  func open(_ file: URL, iospec: IOSpec, delegate: String, threads: Int) throws -> any Engine {
    let engine = try opener.open(file, iospec: iospec, delegate: delegate, threads: threads)
    return iospec.inputs.contains { $0.name == "timestep" } ? HaltingEngine(engine, gate) : engine
  }
}

final class HaltingEngine: Engine {
  private let engine: any Engine
  private let gate: DispatchSemaphore
  private var runs = 0
  var iospec: IOSpec { engine.iospec }
  var delegateGot: String? { engine.delegateGot }

  init(_ engine: any Engine, _ gate: DispatchSemaphore) { (self.engine, self.gate) = (engine, gate) }

  func run(_ inputs: Tensors) throws -> Tensors {
    runs += 1
    if runs == 3 { gate.wait() }
    return try engine.run(inputs)
  }
}
