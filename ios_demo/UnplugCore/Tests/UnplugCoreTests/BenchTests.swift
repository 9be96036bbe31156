import Foundation
import XCTest

@testable import UnplugCore

final class StatisticsTests: XCTestCase {
  func testSummaries() throws {
    let file = try vectorJson("statistics/latencies.json")
    for item in try file.items("summaries") {
      let wanted = try item.at("summary")
      let found = Summary(try item.doubles("latencies_ms")).json
      for key: ExactText in ["count", "p50", "p90", "p95", "p99", "mean", "std", "min", "max"] {
        XCTAssertEqual(found[key] == .null, wanted[key] == .null, "\(key)")
        if let number = wanted[key]?.double { assertNear([try found.number(key)], [number], relative: 1e-12, "\(key)") }
      }
    }
    for item in try file.items("starts") {
      let medians = try item.doubles("medians")
      let found = typicalLatency(medians)
      XCTAssertEqual(found == nil, item["typical"] == .null)
      XCTAssertEqual(relativeSpread(medians), item["spread"]?.double)
      guard let found, let wanted = item["typical"] else { continue }
      assertNear([found.value], [try wanted.number("value")], relative: 1e-12, "typical")
      XCTAssertEqual(found.ends == nil, wanted["ends"] == .null)
      if let ends = found.ends {
        // Beyond 30 degrees of freedom the table says 1.96 where the quantile is 2.04.
        let (known, value) = (try wanted.doubles("ends"), try wanted.number("value"))
        let tolerance = medians.count > 31 ? 0.05 * log(known[1] / value) : 1e-5
        assertNear(ends, known, relative: tolerance, "ends")
      }
    }
    for item in try file.items("sustained") {
      let found = windows(ends: try item.doubles("ends_s"), latencies: try item.doubles("latencies_ms"))
      let wanted = try item.items("windows")
      XCTAssertEqual(found.count, wanted.count)
      for (one, other) in zip(found, wanted) {
        XCTAssertEqual(one.count, try other.whole("count"))
        let numbers = try ["start_s", "end_s", "p50", "p95"].map { try other.number($0) }
        assertNear([one.start, one.end, one.p50, one.p95], numbers, relative: 1e-12, absolute: 1e-12, "window")
      }
    }
  }

  func testDecibels() throws {
    let file = try vectorJson("statistics/parity.json")
    for item in try file.items("cases") {
      let found = Difference(reference: try item.floats("reference"), output: try item.floats("output"))
      let what = try item.words("what")
      XCTAssertEqual(found.exact, item["exact"]?.bool, what)
      XCTAssertEqual(found.exact || found.psnr != nil, item["defined"]?.bool, what)
      if let psnr = item["psnr_db"]?.double {
        assertNear([try XCTUnwrap(found.psnr)], [psnr], absolute: try file.number("tolerance_db"), "dB")
      }
    }
    XCTAssertEqual(Difference(reference: [1], output: [.nan]).reason, "the output holds NaN or infinity")
    XCTAssertEqual(Difference(reference: [1, 2], output: [1]).verdict(60), "1 values where the reference has 2")
    XCTAssertEqual(Difference(reference: [1], output: [1.1]).verdict(60), "20.0 dB is below 60 dB")
    XCTAssertNil(Difference(reference: [1], output: [1.0001]).verdict(60))
  }
}

/// y = 2 x, with a fault on demand.
final class Doubler: Engine {
  let iospec: IOSpec
  var delegateGot: String? { "cpu" }
  let offset: Float
  let clock: Clock

  init(_ iospec: IOSpec, offset: Float, clock: Clock) { (self.iospec, self.offset, self.clock) = (iospec, offset, clock) }

  func run(_ inputs: Tensors) throws -> Tensors {
    clock.now += 0.002
    return ["y": .floats((inputs["x"]?.floats ?? []).map { 2 * $0 + offset })]
  }
}

final class Clock: @unchecked Sendable { var now = 0.0 }

struct DoublerOpener: Opener {
  let runtime = "coreml-app"
  let version: String? = "18"
  let delegates = ["all", "cpu"]
  var offset: Float = 0
  let clock: Clock

  func open(_ file: URL, iospec: IOSpec, delegate: String, threads: Int) throws -> any Engine {
    guard FileManager.default.fileExists(atPath: file.path) else { throw Failure(file.lastPathComponent, "it is missing") }
    clock.now += 0.25
    return Doubler(iospec, offset: offset, clock: clock)
  }
}

final class Platform: BenchPlatform {
  let (device, system, emulated) = ("iPhone 15", "iOS 18.1", false)
  let time: Clock
  init(_ clock: Clock) { time = clock }
  func state() -> DeviceState { DeviceState(thermal: "nominal", batteryPercent: 80, charging: false) }
  func clock() -> Double {
    time.now += 1e-6
    return time.now
  }
}

/// A benchmark's folder as `unplug bench --on ios` hands it over.
func benchFolder(_ changes: [ExactText: Json] = [:], sustain: Double? = nil) throws -> URL {
  let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
  for path in ["files", "vectors/0"] {
    try FileManager.default.createDirectory(at: folder.appendingPathComponent(path), withIntermediateDirectories: true)
  }
  func tensor(_ name: ExactText) -> Json {
    .object([
      "name": .text(name), "shape": .list([.number(1), .number(2)]), "dtype": .text("float32"), "layout": .text("NC"), "range": .null,
    ])
  }
  var job: [ExactText: Json] = [
    "number": .number(0), "file": .text("m.fp32.mlpackage"), "model_type": .text("age"), "model_sha256": .text("aa"),
    "artifact_sha256": .text("bb"), "target": .text("coreml"), "precision": .text("fp32"), "bytes": .number(9),
    "runtime": .text("coreml-app"), "delegate": .text("cpu"), "inputs_sha256": .text("cc"), "parity_reference": .text("checkpoint"),
    "flops": .number(4), "min_psnr_db": .number(100), "not_run": .null, "model_url": .text("files/0"), "vectors_url": .text("vectors/0"),
    "iospec": .object(["inputs": .list([tensor("x")]), "outputs": .list([tensor("y")])]), "row": .null, "config": .object([:]),
  ]
  job.merge(changes) { $1 }
  let plan: Json = .object([
    "threads": .number(1), "warmup": .number(2), "iterations": .number(5), "starts": .number(3), "seed": .number(0),
    "sustain_s": number(sustain),
  ])
  let whole: Json = .object(["schema": .text("unplug-bench-plan/1"), "plan": plan, "jobs": .list([.object(job)]), "auto": .bool(false)])
  try Data(canonical(whole)).write(to: folder.appendingPathComponent("plan.json"))
  try Data("model".utf8).write(to: folder.appendingPathComponent("files/0"))
  func entry(_ name: String) -> Json { .object(["file": .text(ExactText(name)), "shape": .list([.number(1), .number(2)])]) }
  let sample: Json = .object(["inputs": .object(["x": entry("0-x.f32")]), "outputs": .object(["y": entry("0-y.f32")])])
  let index: Json = .object(["schema": .text("unplug-vectors/1"), "samples": .list([sample])])
  try Data(canonical(index)).write(to: folder.appendingPathComponent("vectors/0/vectors.json"))
  for (name, values) in [("x", [Float(1), 3]), ("y", [2, 6])] {
    let bytes = values.flatMap { $0.bitPattern.littleEndianBytes }
    try Data(bytes).write(to: folder.appendingPathComponent("vectors/0/0-\(name).f32"))
  }
  return folder
}

final class BenchmarkTests: XCTestCase {
  private func row(_ folder: URL, offset: Float = 0) throws -> Json {
    defer { try? FileManager.default.removeItem(at: folder) }
    let clock = Clock()
    let plan = try BenchPlan(Data(contentsOf: folder.appendingPathComponent("plan.json")))
    let opener = DoublerOpener(offset: offset, clock: clock)
    return try Benchmark(plan, folder: folder, openers: [opener], platform: Platform(clock)).run().items("rows")[0]
  }

  func testARow() throws {
    let row = try row(benchFolder())
    XCTAssertEqual(try row.words("status"), "ok")
    XCTAssertEqual(row["valid"], .bool(true))
    XCTAssertEqual(try row.items("repeats").count, 3)
    for start in try row.items("repeats") {
      XCTAssertEqual(try start.doubles("latencies_ms").count, 5)
      XCTAssertEqual(try start.whole("compared"), 8, "the first, two warm-ups and five timed runs are compared")
      assertNear([try start.number("init_ms")], [250], relative: 1e-3, "init")
    }
    assertNear([try row.number("median_ms")], [2], relative: 1e-2, "median")
    XCTAssertEqual(try row.words("delegate_got"), "cpu")
    XCTAssertEqual(try row.words("thermal_before"), "nominal")
  }

  func testARowOutOfTolerance() throws {
    let row = try row(benchFolder(), offset: 0.5)
    XCTAssertEqual(row["valid"], .bool(false))
    XCTAssertTrue(try row.items("reasons")[0].string!.hasPrefix("parity: y: "))
  }

  func testASustainedRun() throws {
    let row = try row(benchFolder(sustain: 1))
    XCTAssertEqual(try row.words("mode"), "sustained")
    XCTAssertEqual(try row.items("repeats").count, 1)
    XCTAssertEqual(try row.items("repeats")[0].doubles("latencies_ms"), [])
    XCTAssertEqual(try row.items("curve").count, 60)
  }

  func testWhatCannotRun() throws {
    XCTAssertEqual(try row(benchFolder(["runtime": .text("litert-app")])).words("status"), "failed")
    let gone = try row(benchFolder(["model_url": .text("files/7")]))
    XCTAssertTrue(try gone.items("reasons")[0].string!.contains("it is missing"))
    for (key, value) in [("model_url", Json.text("../x")), ("vectors_url", .text("/etc")), ("iospec", .null), ("number", .text("1"))]
      as [(ExactText, Json)]
    {
      XCTAssertThrowsError(try row(benchFolder([key: value])), "\(key)")
    }
  }

  func testAStoppedRunKeepsWhatItHas() throws {
    let folder = try benchFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let clock = Clock()
    let plan = try BenchPlan(Data(contentsOf: folder.appendingPathComponent("plan.json")))
    let benchmark = Benchmark(plan, folder: folder, openers: [DoublerOpener(clock: clock)], platform: Platform(clock))
    var starts = 0
    benchmark.progress = { _, _ in starts += 1 }
    benchmark.isCancelled = { starts > 1 }
    let row = try benchmark.run().items("rows")[0]
    XCTAssertEqual(try row.items("repeats").count, 1)
    XCTAssertTrue(try row.items("reasons")[0].string!.hasPrefix("1 of 3 cold starts were timed"))
  }

  func testOrders() {
    var (one, other) = (ShuffledOrder(seed: 3), ShuffledOrder(seed: 3))
    let first = one.shuffled(Array(0..<20))
    XCTAssertEqual(first, other.shuffled(Array(0..<20)))
    XCTAssertNotEqual(first, one.shuffled(Array(0..<20)))
    XCTAssertEqual(first.sorted(), Array(0..<20))
  }
}
