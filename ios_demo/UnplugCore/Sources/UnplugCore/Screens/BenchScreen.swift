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
  /// What a model took in the last benchmark, in milliseconds by its fastest file, where that holds; by the SHA-256 of the checkpoint.
  public private(set) var measured: [String: Double] = [:]
  /// `unplug-bench/1`, to be shared.
  public private(set) var report: Data?
  public var sustained = false
  public var delegates: Set<String>
  public let openers: [any Opener]
  private let platform: @Sendable () -> any BenchPlatform
  private let folder: URL
  private var task: Task<Json, any Error>?

  /// - Parameters:
  ///   - platform: made anew in the task that measures.
  ///   - folder: the screen's own folder for the files of a run, in the app's caches.
  public init(openers: [any Opener], folder: URL, platform: @escaping @Sendable () -> any BenchPlatform) {
    (self.openers, self.folder, self.platform) = (openers, folder, platform)
    delegates = Set(openers.flatMap(\.delegates))
  }

  /// Whether a delegate is asked for.
  public subscript(asks delegate: String) -> Bool {
    get { delegates.contains(delegate) }
    set { if newValue { delegates.insert(delegate) } else { delegates.remove(delegate) } }
  }

  /// Shows what a benchmark had measured when the app was ended in it, and removes its files; nothing where none was.
  public func recover() {
    guard case .idle = state, FileManager.default.fileExists(atPath: folder.path) else { return }
    let kept = try? looseJson(Data(contentsOf: folder.appendingPathComponent(HeadlessBench.partial)))
    try? FileManager.default.removeItem(at: folder)
    if let kept { show(kept) }
    let saved = lines.isEmpty ? "nothing was measured until then" : "what was measured until then is below"
    state = .failed("The last benchmark: the app was ended while it ran, \(saved). Measure again.")
  }

  /// - Parameter starts, iterations, seconds: the plan's numbers; a sustained run takes `seconds` at full load.
  public func run(_ bundle: Verified?, starts: Int = 5, iterations: Int = 50, seconds: Double = 300) async {
    state = .running(0, "")
    let folder = self.folder
    defer { try? FileManager.default.removeItem(at: folder) }
    do {
      guard let bundle else { throw Failure("The benchmark", "no bundle is open", "Open one first") }
      let asked = Dictionary(openers.map { ($0.runtime, $0.delegates.filter(delegates.contains)) }) { one, _ in one }
      let (openers, platform, sustain) = (self.openers, self.platform, sustained ? seconds : nil)
      let told = AsyncStream.makeStream(of: (Double, String).self)
      let task = Task.detached {
        defer { told.continuation.finish() }
        try? FileManager.default.removeItem(at: folder)
        let jobs = try bundle.benchJobs(in: folder, openers: openers, delegates: asked)
        let plan = BenchPlan(iterations: iterations, starts: sustain == nil ? starts : 1, sustain: sustain, jobs: jobs)
        let benchmark = Benchmark(plan, folder: folder, openers: openers, platform: platform())
        benchmark.isCancelled = { Task.isCancelled }
        benchmark.progress = { told.continuation.yield(($0, "\($1.file) on \($1.delegate)")) }
        benchmark.kept = { HeadlessBench.keep($0, in: folder) }
        return benchmark.run()
      }
      self.task = task
      for await (share, text) in told.stream { state = .running(share, text) }
      show(try await task.value)
      state = .done
    } catch { state = .failed(line(of: error)) }
  }

  /// What was measured until now is kept.
  public func stop() { task?.cancel() }

  private func show(_ found: Json) {
    report = Data(canonical(found))
    let rows = found["rows"]?.list ?? []
    lines = rows.enumerated().map { number, row in
      let reasons = row["reasons"]?.list?.compactMap(\.string) ?? []
      return BenchLine(
        id: number, file: row["file"]?.string ?? "?", delegate: row["delegate_asked"]?.string ?? "?", medianMs: row["median_ms"]?.double,
        ends: row["median_ci95_ms"]?.list?.compactMap(\.double), note: reasons.joined(separator: "; "))
    }
    let timed = rows.compactMap { row -> (String, Double)? in
      guard row["valid"] == .bool(true), let model = row["model_sha256"]?.string else { return nil }
      return row["median_ms"]?.double.map { (model, $0) }
    }
    measured = Dictionary(timed, uniquingKeysWith: min)
    points = []
    for (line, row) in zip(lines, rows) {
      let runs = (row["repeats"]?.list ?? []).flatMap { $0["latencies_ms"]?.list ?? [] }.compactMap(\.double)
      let windows = (row["curve"]?.list ?? []).compactMap { window in
        window["end_s"]?.double.flatMap { end in window["p50"]?.double.map { (end, $0) } }
      }
      for (x, ms) in runs.isEmpty ? windows : runs.enumerated().map({ (Double($0), $1) }) {
        points.append(BenchPoint(id: points.count, series: "\(line.file), \(line.delegate)", x: x, ms: ms))
      }
    }
    thermal = rows.last?["thermal_after"]?.string
  }
}

/// The benchmark without a screen: `--benchmark FOLDER` among the launch arguments, as `unplug bench --on ios` starts the app.
public enum HeadlessBench {
  /// The file with what was measured until now, next to the plan; `report.json` is there only when all is done.
  public static let partial = "partial.json"
  /// The line that says why nothing could be measured, for the harness.
  public static let failed = "failed.txt"

  /// The folder that launch arguments name, below the app's container; nothing where they ask for none.
  ///
  /// - Throws: `Failure` for a path that leads out of it.
  public static func folder(_ arguments: [String], container: URL) throws -> URL? {
    guard let place = arguments.firstIndex(of: "--benchmark"), place + 1 < arguments.count else { return nil }
    let path = arguments[place + 1]
    guard Names.isSafe(ExactText(path)) else { throw Failure("--benchmark \(path)", "it leads out of the app's folder") }
    return container.appendingPathComponent(path)
  }

  /// Works through `plan.json` and writes `report.json` next to it, whole or not at all; also where everything failed. Folders of
  /// earlier benchmarks (`bench-*` next to it) are removed: nothing else can remove them.
  public static func run(_ folder: URL, openers: [any Opener], platform: any BenchPlatform) throws {
    do { try measured(folder, openers, platform) } catch {
      try? Data(line(of: error).utf8).write(to: folder.appendingPathComponent(failed), options: .atomic)
      throw error
    }
  }

  private static func measured(_ folder: URL, _ openers: [any Opener], _ platform: any BenchPlatform) throws {
    guard let data = try? Data(contentsOf: folder.appendingPathComponent("plan.json")) else {
      throw Failure(folder.lastPathComponent, "it has no plan.json", "Run unplug bench --on ios again")
    }
    let (manager, around) = (FileManager.default, folder.deletingLastPathComponent())
    for name in (try? manager.contentsOfDirectory(atPath: around.path)) ?? [] {
      if name.hasPrefix("bench-"), name != folder.lastPathComponent { try? manager.removeItem(at: around.appendingPathComponent(name)) }
    }
    let benchmark = Benchmark(try BenchPlan(data), folder: folder, openers: openers, platform: platform)
    benchmark.kept = { keep($0, in: folder) }
    do { try Data(canonical(benchmark.run())).write(to: folder.appendingPathComponent("report.json"), options: .atomic) } catch {
      throw unwritten("The report", error)
    }
  }

  /// Puts what was measured in the place of what was kept before. Where that fails the benchmark goes on: the report tells.
  static func keep(_ found: Json, in folder: URL) {
    try? Data(canonical(found)).write(to: folder.appendingPathComponent(partial), options: .atomic)
  }
}
