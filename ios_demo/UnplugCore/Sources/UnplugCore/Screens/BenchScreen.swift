import Foundation
import Observation

/// A line of the benchmark's table.
public struct BenchLine: Identifiable, Equatable, Sendable {
  public let id: Int
  public let file: String
  public let delegate: String
  public let medianMs: Double?
  public let ends: [Double]?
  public let note: String
}

/// One point of the chart: a timed run, or a window of a sustained one.
public struct BenchPoint: Identifiable, Equatable, Sendable {
  public let id: Int
  public let series: String
  public let x: Double
  public let ms: Double
}

/// Measures what a bundle holds, and says how the device felt.
@MainActor
@Observable
public final class BenchScreen {
  public enum State: Equatable {
    case idle
    case running(Double, String)
    case done
    case failed(String)
  }

  public private(set) var state = State.idle
  public private(set) var lines: [BenchLine] = []
  public private(set) var points: [BenchPoint] = []
  public private(set) var thermal: String?
  /// `unplug-bench/1`, to be shared.
  public private(set) var report: Data?
  public var sustained = false
  public var delegates: Set<String>
  public let openers: [any Opener]
  private let platform: @Sendable () -> any BenchPlatform
  private let folder: URL
  private var task: Task<BenchOutcome, any Error>?

  /// - Parameters:
  ///   - platform: made anew in the task that measures.
  ///   - folder: for the files of a run; the app's caches.
  public init(openers: [any Opener], folder: URL, platform: @escaping @Sendable () -> any BenchPlatform) {
    (self.openers, self.folder, self.platform) = (openers, folder, platform)
    delegates = Set(openers.flatMap(\.delegates))
  }

  /// - Parameter starts, iterations, seconds: of the plan; a sustained run takes `seconds` at full load.
  public func run(_ bundle: Verified?, starts: Int = 5, iterations: Int = 50, seconds: Double = 300) async {
    state = .running(0, "")
    let place = folder.appendingPathComponent("bench-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: place) }
    do {
      guard let bundle else { throw Failure("The benchmark", "no bundle is open", "Open one first") }
      let asked = Dictionary(openers.map { ($0.runtime, $0.delegates.filter(delegates.contains)) }) { one, _ in one }
      let (openers, platform, sustain) = (self.openers, self.platform, sustained ? seconds : nil)
      let told = AsyncStream.makeStream(of: (Double, String).self)
      let task = Task.detached {
        defer { told.continuation.finish() }
        let jobs = try bundle.benchJobs(in: place, openers: openers, delegates: asked)
        let plan = BenchPlan(iterations: iterations, starts: sustain == nil ? starts : 1, sustain: sustain, jobs: jobs)
        let benchmark = Benchmark(plan, folder: place, openers: openers, platform: platform())
        benchmark.isCancelled = { Task.isCancelled }
        benchmark.progress = { told.continuation.yield(($0, "\($1.file) on \($1.delegate)")) }
        return BenchOutcome(report: benchmark.run(), jobs: jobs, found: benchmark.found)
      }
      self.task = task
      for await (share, text) in told.stream { state = .running(share, text) }
      show(try await task.value)
      state = .done
    } catch { state = .failed(line(of: error)) }
  }

  /// What was measured until now is kept.
  public func stop() { task?.cancel() }

  private func show(_ outcome: BenchOutcome) {
    report = Data(canonical(outcome.report))
    let rows = outcome.report["rows"]?.list ?? []
    lines = zip(outcome.jobs, rows).map { job, row in
      let reasons = row["reasons"]?.list?.compactMap(\.string) ?? []
      let ends = row["median_ci95_ms"]?.list?.compactMap(\.double)
      return BenchLine(
        id: job.number, file: job.file, delegate: job.delegate, medianMs: row["median_ms"]?.double, ends: ends,
        note: reasons.joined(separator: "; "))
    }
    var next = 0
    points = outcome.jobs.flatMap { job -> [BenchPoint] in
      let (series, found) = ("\(job.file), \(job.delegate)", outcome.found[job.number] ?? BenchFound())
      let runs = found.repeats.flatMap(\.latencies).enumerated().map { (Double($0), $1) }
      let values = runs.isEmpty ? found.curve.map { ($0.end, $0.p50) } : runs
      return values.map { x, ms in
        next += 1
        return BenchPoint(id: next, series: series, x: x, ms: ms)
      }
    }
    thermal = rows.last?["thermal_after"]?.string
  }
}

struct BenchOutcome: Sendable {
  let report: Json
  let jobs: [BenchJob]
  let found: [Int: BenchFound]
}

/// The benchmark without a screen: `--benchmark FOLDER` among the launch arguments, as `unplug bench --on ios` starts the app.
public enum HeadlessBench {
  /// The folder that launch arguments name, below the app's container; nothing where they ask for none.
  ///
  /// - Throws: `Failure` for a path that leads out of it.
  public static func folder(_ arguments: [String], container: URL) throws -> URL? {
    guard let place = arguments.firstIndex(of: "--benchmark"), place + 1 < arguments.count else { return nil }
    let path = arguments[place + 1]
    guard Names.isSafe(ExactText(path)) else { throw Failure("--benchmark \(path)", "it leads out of the app's folder") }
    return container.appendingPathComponent(path)
  }

  /// Works through `plan.json` and writes `report.json` beside it, whole or not at all; also where everything failed.
  public static func run(_ folder: URL, openers: [any Opener], platform: any BenchPlatform) throws {
    guard let data = try? Data(contentsOf: folder.appendingPathComponent("plan.json")) else {
      throw Failure(folder.lastPathComponent, "it has no plan.json", "Run unplug bench --on ios again")
    }
    let benchmark = Benchmark(try BenchPlan(data), folder: folder, openers: openers, platform: platform)
    try Data(canonical(benchmark.run())).write(to: folder.appendingPathComponent("report.json"), options: .atomic)
  }
}
