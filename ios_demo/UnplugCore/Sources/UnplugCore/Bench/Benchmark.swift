import Foundation

/// The device's state, as the system tells it.
public struct DeviceState: Equatable, Sendable {
  /// `nominal`, `fair`, `serious` or `critical`; nothing where the system does not tell.
  public var thermal: String?
  public var batteryPercent: Double?
  public var charging: Bool?

  public init(thermal: String? = nil, batteryPercent: Double? = nil, charging: Bool? = nil) {
    (self.thermal, self.batteryPercent, self.charging) = (thermal, batteryPercent, charging)
  }
}

/// What the benchmark asks of the platform.
public protocol BenchPlatform: AnyObject {
  /// The device's name, and its system with the version.
  var device: String { get }
  var system: String { get }
  /// Whether this is a simulator.
  var emulated: Bool { get }
  func state() -> DeviceState
  /// Seconds of a clock that never goes back.
  func clock() -> Double
}

/// One cold start of one job.
public struct BenchRepeat: Sendable {
  public let started: Double
  public let initMs: Double
  public let firstMs: Double
  public let latencies: [Double]
  public let summary: Summary
  public let compared: Int
  public let parityDb: Double?
  public let parityReason: String?
  public let delegateGot: String?
  public let before: DeviceState
  public let after: DeviceState

  var json: Json {
    .object([
      "started_s": .number(started), "init_ms": .number(initMs), "first_inference_ms": .number(firstMs),
      "latencies_ms": .list(latencies.map(Json.number)), "summary": summary.json, "compared": .number(Double(compared)),
      "parity_db": number(parityDb), "parity_reason": text(parityReason), "delegate_got": text(delegateGot),
      "thermal": text(before.thermal), "battery_percent": number(before.batteryPercent),
      "charging": before.charging.map(Json.bool) ?? .null, "thermal_after": text(after.thermal),
    ])
  }
}

/// What has been measured of one job.
public struct BenchFound: Sendable {
  public var repeats: [BenchRepeat] = []
  public var curve: [BenchWindow] = []
  public var failure: String?
  public var interruptions: [String] = []
}

/// The protocol: cold starts of all jobs in turn, in an order drawn anew for each; the model opened anew for every one, every
/// run's outputs compared, the clock stopped when the outputs are read.
///
/// A process cannot start itself anew on a phone: a cold start is one of the model, and rows say so in their first warning.
public final class Benchmark {
  private let plan: BenchPlan
  private let platform: any BenchPlatform
  private let openers: [String: any Opener]
  private let folder: URL
  private let begun: Double
  public private(set) var found: [Int: BenchFound] = [:]
  /// Checked between two runs.
  public var isCancelled: () -> Bool = { false }
  /// Gets the share that is done, and the job.
  public var progress: (Double, BenchJob) -> Void = { _, _ in }
  /// Gets what was measured until now after every cold start, so that nothing is lost where the app is killed.
  public var kept: (Json) -> Void = { _ in }

  /// - Parameters:
  ///   - folder: the folder that the jobs' paths are below.
  ///   - openers: the openers by the name of the runtime.
  public init(_ plan: BenchPlan, folder: URL, openers: [any Opener], platform: any BenchPlatform) {
    (self.plan, self.folder, self.platform) = (plan, folder, platform)
    self.openers = Dictionary(openers.map { ($0.runtime, $0) }) { one, _ in one }
    begun = platform.clock()
    for job in plan.jobs { found[job.number] = BenchFound() }
  }

  /// Measures all, and gives the report.
  public func run() -> Json {
    var order = ShuffledOrder(seed: plan.seed)
    var done = 0
    for _ in 0..<plan.starts {
      for job in order.shuffled(plan.jobs) {
        if isCancelled() { return report() }
        progress(Double(done) / Double(plan.jobs.count * plan.starts), job)
        if job.notRun == nil, found[job.number]!.failure == nil {
          one(job)
          kept(report())
        }
        done += 1
      }
    }
    return report()
  }

  private func one(_ job: BenchJob) {
    do {
      let (start, curve) = try coldStart(job)
      found[job.number]!.repeats.append(start)
      found[job.number]!.curve = curve
    } catch {
      found[job.number]!.failure = Failure.plain(line(of: error))
    }
  }

  private func coldStart(_ job: BenchJob) throws -> (BenchRepeat, [BenchWindow]) {
    guard let opener = openers[job.runtime] else {
      throw Failure(job.file, "this app was built without \(job.runtime)", "Build it with it, or leave the file out")
    }
    let samples = try Sample.read(folder.appendingPathComponent(job.vectors), job.iospec)
    let (before, started) = (platform.state(), platform.clock() - begun)
    let opening = platform.clock()
    let engine = try opener.open(
      folder.appendingPathComponent(job.model), iospec: job.iospec, delegate: job.delegate, threads: plan.threads)
    let opened = platform.clock()
    var runs = Runs(job: job, samples: samples, engine: engine, platform: platform)
    let first = try runs.next()
    for _ in 0..<plan.warmup where !isCancelled() { _ = try runs.next() }
    var (latencies, ends) = ([Double](), [Double]())
    let zero = platform.clock()
    func goesOn() -> Bool { plan.sustain.map { platform.clock() - zero < $0 } ?? (latencies.count < plan.iterations) }
    repeat {
      if isCancelled() { throw Failure(job.file, "it was stopped") }
      latencies.append(try runs.next())
      ends.append(platform.clock() - zero)
    } while goesOn()
    let sustained = plan.sustain != nil
    let parity = runs.worst
    let taken = BenchRepeat(
      started: started, initMs: 1e3 * (opened - opening), firstMs: first, latencies: sustained ? [] : latencies,
      summary: Summary(latencies), compared: runs.compared, parityDb: parity.db, parityReason: parity.reason,
      delegateGot: engine.delegateGot, before: before, after: platform.state())
    return (taken, sustained ? windows(ends: ends, latencies: latencies) : [])
  }

  /// Runs of one opened model over the samples in turn, each compared.
  private struct Runs {
    let job: BenchJob
    let samples: [Sample]
    let engine: any Engine
    let platform: any BenchPlatform
    /// Outputs of the first run of a sample, with which the others are compared where none are expected.
    var first: [Int: Tensors] = [:]
    var compared = 0
    var worst: (db: Double?, reason: String?) = (nil, nil)

    /// Milliseconds from the call until the outputs are here.
    mutating func next() throws -> Double {
      let place = compared % samples.count
      let sample = samples[place]
      let start = platform.clock()
      let outputs = try engine.run(sample.inputs)
      let spent = 1e3 * (platform.clock() - start)
      compared += 1
      let known = first[place] ?? outputs
      first[place] = known
      let isExpected = job.kept["parity_reference"] != .text("first_run")
      let differences = job.iospec.outputs.map { spec in
        let reference = isExpected ? sample.outputs[spec.name] : known[spec.name]?.floats
        return (name: spec.name, difference: Difference(reference: reference ?? [], output: outputs[spec.name]?.floats ?? []))
      }
      let own = UnplugCore.worst(differences, job.minPsnr)
      worst.db = [worst.db, own.db].compactMap { $0 }.min()
      worst.reason = worst.reason ?? own.reason
      return spent
    }
  }

  /// `unplug-bench/1` of what was measured until now.
  public func report() -> Json {
    let rows = plan.jobs.filter { $0.notRun == nil }.map { row($0) }
    var versions: [ExactText: Json] = [:]
    for (name, opener) in openers { if let version = opener.version { versions[ExactText(name)] = text(version) } }
    return .object([
      "schema": .text("unplug-bench/1"), "rows": .list(rows), "seed": .number(Double(plan.seed)), "versions": .object(versions),
      "git_revision": .null,
    ])
  }

  /// A job's row. Python works every derived number out again and believes none of these.
  public func row(_ job: BenchJob) -> Json {
    let own = found[job.number] ?? BenchFound()
    let (why, complete) = (reasons(own), own.repeats.count >= plan.starts)
    var row = job.kept
    let facts: [ExactText: Json] = [
      "where": .text(platform.emulated ? "emulated" : "device"), "device": text(platform.device), "os": text(platform.system),
      "runtime_version": text(openers[job.runtime]?.version), "threads": .number(Double(plan.threads)),
      "delegate_asked": text(job.delegate), "status": .text(complete ? "ok" : "failed"), "valid": .bool(why.isEmpty),
      "reasons": .list(why.map { text($0) }), "mode": .text(plan.sustain == nil ? "burst" : "sustained"),
      "warnings": .list([text("a cold start is one of the model: the app's process goes on")]),
      "warmup": .number(Double(plan.warmup)), "iterations": .number(Double(plan.iterations)), "timed_until": .text("read_back"),
      "repeats": .list(own.repeats.map(\.json)), "curve": .list(own.curve.map(\.json)),
      "interruptions": .list(own.interruptions.map { text($0) }),
    ]
    row.merge(facts) { $1 }
    row.merge(numbers(own.repeats)) { $1 }
    return .object(row)
  }

  private func reasons(_ own: BenchFound) -> [String] {
    let missing = own.repeats.count < plan.starts
    let stopped = own.failure ?? "the rest is to come"
    let told = own.repeats.isEmpty ? stopped : "\(own.repeats.count) of \(plan.starts) cold starts were timed: \(stopped)"
    let parity = Set(own.repeats.compactMap(\.parityReason)).sorted().map { "parity: \($0)" }
    return (missing ? [told] : []) + parity
  }

  private func numbers(_ repeats: [BenchRepeat]) -> [ExactText: Json] {
    guard let first = repeats.first else { return [:] }
    let (medians, pooled) = (repeats.map(\.summary.p50), repeats.flatMap(\.latencies))
    let typical = typicalLatency(medians)
    return [
      "delegate_got": text(first.delegateGot), "init_ms_cold": .number(median(repeats.map(\.initMs))),
      "first_inference_ms": .number(median(repeats.map(\.firstMs))),
      "summary": (pooled.isEmpty ? first.summary : Summary(pooled)).json, "median_ms": number(typical?.value),
      "median_ci95_ms": typical?.ends.map { .list($0.map(Json.number)) } ?? .null, "spread": number(relativeSpread(medians)),
      "thermal_before": text(first.before.thermal), "thermal_after": text(repeats.last!.after.thermal),
      "battery_percent": number(first.before.batteryPercent), "charging": first.before.charging.map(Json.bool) ?? .null,
    ]
  }
}

/// Orders drawn from the noise stream: the same seed gives the same ones.
struct ShuffledOrder {
  let seed: UInt64
  private var used: UInt64 = 1

  init(seed: UInt64) { self.seed = seed }

  /// Fisher and Yates.
  mutating func shuffled<Item>(_ items: [Item]) -> [Item] {
    var found = items
    let words = NoiseStream.words(seed: seed, stream: used, count: items.count)
    used += 1
    for place in stride(from: items.count - 1, to: 0, by: -1) {
      found.swapAt(place, Int(words[place].multipliedFullWidth(by: UInt32(place + 1)).high))
    }
    return found
  }
}
