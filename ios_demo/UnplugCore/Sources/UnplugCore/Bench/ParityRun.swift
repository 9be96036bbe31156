import Foundation

/// Every job of a benchmark's folder run once a sample: outputs for the caller, and a row for each output.
///
/// It is what `unplug-coreml FOLDER` does; `unplug parity --coreml-host` sends the folder and compares the outputs itself.
public struct ParityRun {
  let folder: URL
  let openers: [String: any Opener]

  public init(folder: URL, openers: [any Opener]) {
    self.folder = folder
    self.openers = Dictionary(openers.map { ($0.runtime, $0) }) { one, _ in one }
  }

  /// Writes `outputs/NUMBER/SAMPLE-NAME.f32` and gives `unplug-coreml/1`.
  public func run() throws -> Json {
    guard let data = try? Data(contentsOf: folder.appendingPathComponent("plan.json")) else {
      throw Failure(folder.lastPathComponent, "it has no plan.json", "Give the folder of unplug parity --coreml-host")
    }
    let plan = try BenchPlan(data)
    let rows = plan.jobs.filter { $0.notRun == nil }.flatMap { job -> [Json] in
      do { return try self.rows(job, plan.threads) } catch { return [failed(job, line(of: error))] }
    }
    return .object(["schema": .text("unplug-coreml/1"), "rows": .list(rows)])
  }

  private func failed(_ job: BenchJob, _ why: String) -> Json {
    .object(["number": .number(Double(job.number)), "file": text(job.file), "status": .text("fail"), "reason": text(why)])
  }

  private func rows(_ job: BenchJob, _ threads: Int) throws -> [Json] {
    guard let opener = openers[job.runtime] else {
      throw Failure(job.file, "\(job.runtime) is not here", "Run this on a Mac")
    }
    let samples = try Sample.read(folder.appendingPathComponent(job.vectors), job.iospec)
    let engine = try opener.open(folder.appendingPathComponent(job.model), iospec: job.iospec, delegate: job.delegate, threads: threads)
    let place = folder.appendingPathComponent("outputs/\(job.number)")
    try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
    var (known, found): ([String: [Float]], [String: [Float]]) = ([:], [:])
    for (number, sample) in samples.enumerated() {
      let outputs = try engine.run(sample.inputs)
      for spec in job.iospec.outputs {
        let values = outputs[spec.name]?.floats ?? []
        let bytes = values.flatMap { $0.bitPattern.littleEndianBytes }
        try Data(bytes).write(to: place.appendingPathComponent("\(number)-\(spec.name).f32"))
        known[spec.name, default: []] += sample.outputs[spec.name] ?? []
        found[spec.name, default: []] += values
      }
    }
    return job.iospec.outputs.map { spec in
      let difference = Difference(reference: known[spec.name] ?? [], output: found[spec.name] ?? [])
      let why = difference.verdict(job.minPsnr)
      return .object([
        "number": .number(Double(job.number)), "file": text(job.file), "output": text(spec.name), "delegate": text(job.delegate),
        "runtime_version": text(opener.version), "status": .text(why == nil ? "pass" : "fail"), "reason": text(why),
        "threshold_db": .number(job.minPsnr), "psnr_db": number(difference.psnr), "exact": .bool(difference.exact),
        "max_abs_error": number(difference.maxAbsError),
      ])
    }
  }
}
