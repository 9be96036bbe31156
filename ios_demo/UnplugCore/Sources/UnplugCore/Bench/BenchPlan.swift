import Foundation

/// How artifacts are timed, and which: `unplug-bench-plan/1`, the folder's `plan.json` that `unplug bench --on ios` writes.
public struct BenchPlan: Sendable {
  public var threads: Int
  public var warmup: Int
  public var iterations: Int
  public var starts: Int
  public var sustain: Double?
  public var seed: UInt64
  public var jobs: [BenchJob]

  public init(
    threads: Int = 2, warmup: Int = 5, iterations: Int = 50, starts: Int = 7, sustain: Double? = nil, seed: UInt64 = 0,
    jobs: [BenchJob]
  ) {
    (self.threads, self.warmup, self.iterations) = (threads, warmup, iterations)
    (self.starts, self.sustain, self.seed, self.jobs) = (starts, sustain, seed, jobs)
  }

  public init(_ data: Data) throws {
    let wrong = Failure("plan.json", "it is not a plan of unplug-bench-plan/1", "Update the app or unplug, so that their versions agree")
    let value = try looseJson(data)
    guard value["schema"] == .text("unplug-bench-plan/1"), let plan = value["plan"], let jobs = value["jobs"]?.list, jobs.count <= 2000,
      let threads = plan["threads"]?.int, (1...64).contains(threads), let warmup = plan["warmup"]?.int, (0...100_000).contains(warmup),
      let iterations = plan["iterations"]?.int, (1...1_000_000).contains(iterations), let starts = plan["starts"]?.int,
      (1...1000).contains(starts), let seed = plan["seed"]?.int, seed >= 0
    else { throw wrong }
    let sustain = plan["sustain_s"]?.double
    guard sustain == nil || sustain! > 0 && sustain! <= 86_400 else { throw wrong }
    self.init(
      threads: threads, warmup: warmup, iterations: iterations, starts: sustain == nil ? starts : 1, sustain: sustain,
      seed: UInt64(seed), jobs: try jobs.map { try BenchJob($0) })
  }
}

/// One artifact on one delegate, and what its row copies.
public struct BenchJob: Sendable, Identifiable {
  public let number: Int
  public let file: String
  public let runtime: String
  public let delegate: String
  public let precision: String
  public let iospec: IOSpec
  public let minPsnr: Double
  public let notRun: String?
  /// Paths below the folder.
  public let model: String
  public let vectors: String
  /// Fields that the row has as the plan has them.
  let kept: [ExactText: Json]
  public var id: Int { number }

  private static let copied: [ExactText] = [
    "file", "model_type", "model_sha256", "artifact_sha256", "target", "precision", "bytes", "runtime", "inputs_sha256",
    "parity_reference", "flops",
  ]

  init(_ value: Json) throws {
    let wrong = Failure("plan.json", "a job in it lacks a field", "Update the app or unplug, so that their versions agree")
    guard let number = value["number"]?.int, let file = value["file"]?.string, let runtime = value["runtime"]?.string,
      let delegate = value["delegate"]?.string, let precision = value["precision"]?.string, let minimum = value["min_psnr_db"]?.double,
      let model = value["model_url"]?.text, let vectors = value["vectors_url"]?.text, Names.isSafe(model), Names.isSafe(vectors)
    else { throw wrong }
    (self.number, self.file, self.runtime, self.delegate, self.precision) = (number, file, runtime, delegate, precision)
    (minPsnr, notRun, self.model, self.vectors) = (minimum, value["not_run"]?.string, model.string, vectors.string)
    iospec = try IOSpec(value["iospec"], what: file)
    var kept: [ExactText: Json] = [:]
    for key in BenchJob.copied { kept[key] = value[key] ?? .null }
    self.kept = kept
  }
}

/// One test vector: named inputs, and what should come out.
public struct Sample: Sendable {
  public let inputs: Tensors
  public let outputs: [String: [Float]]

  /// Test vectors as a bundle and a benchmark's folder have them: `vectors.json` next to raw little-endian float32.
  public static func read(_ folder: URL, _ iospec: IOSpec) throws -> [Sample] {
    try read(iospec) { name in
      guard let data = try? Data(contentsOf: folder.appendingPathComponent(name)) else {
        throw Failure("The test vectors", "\(name) is missing", "Write the folder again")
      }
      return data
    }
  }

  /// - Parameter file: gives a file of the folder by its name.
  static func read(_ iospec: IOSpec, _ file: (String) throws -> Data) throws -> [Sample] {
    let wrong = Failure("The test vectors", "they are not those of this model", "Write them again")
    let index = try looseJson(file("vectors.json"))
    guard index["schema"] == .text("unplug-vectors/1"), let samples = index["samples"]?.list, (1...1000).contains(samples.count) else {
      throw wrong
    }
    func values(_ spec: TensorSpec, _ side: Json?) throws -> [Float] {
      guard let entry = side?[ExactText(spec.name)], let name = entry["file"]?.text, Names.isSafe(name) else { throw wrong }
      let raw = [UInt8](try file(name.string))
      guard raw.count == 4 * spec.count else { throw wrong }
      return UInt32.read(raw[...]).map { Float(bitPattern: $0) }
    }
    return try samples.map { item in
      var (inputs, outputs) = (Tensors(), [String: [Float]]())
      for spec in iospec.inputs {
        let floats = try values(spec, item["inputs"])
        guard spec.dtype != "int32" || floats.allSatisfy({ abs($0) < 0x1p31 }) else { throw wrong }
        inputs[spec.name] = spec.dtype == "int32" ? .ints(floats.map { Int32($0) }) : .floats(floats)
      }
      for spec in iospec.outputs { outputs[spec.name] = try values(spec, item["outputs"]) }
      return Sample(inputs: inputs, outputs: outputs)
    }
  }
}

extension Verified {
  /// The bundle's own test vectors, with the axes of its manifest.
  public func samples() throws -> [Sample] {
    try Sample.read(IOSpec(manifest["iospec"], what: "manifest.json")) { name in
      guard let data = files[ExactText("test_vectors/\(name)")] else { throw Failure("The bundle", "test_vectors/\(name) is missing") }
      return data
    }
  }
}
