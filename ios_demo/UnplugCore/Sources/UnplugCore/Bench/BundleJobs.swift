import Foundation

extension Verified {
  /// A benchmark's folder out of the bundle's artifacts and test vectors, as `unplug bench --on ios` would write it.
  ///
  /// - Parameters:
  ///   - folder: must not exist.
  ///   - openers: the openers of what this app can run.
  ///   - delegates: the delegates asked for, by the name of the runtime; a runtime without any is left out.
  /// - Throws: `Failure` where there is nothing that this app can run.
  public func benchJobs(in folder: URL, openers: [any Opener], delegates: [String: [String]]) throws -> [BenchJob] {
    let own = try IOSpec(manifest["iospec"], what: "manifest.json")
    let samples = try samples()
    let suffixes = [".mlpackage": "coreml-app", ".onnx": "onnx-app"]
    var jobs: [BenchJob] = []
    for card in cards() {
      guard let file = card.value["file"]?.string, let suffix = suffixes.keys.first(where: file.hasSuffix),
        let opener = openers.first(where: { $0.runtime == suffixes[suffix] })
      else { continue }
      let iospec = try IOSpec(card.value["iospec"], what: file)
      // The test vectors are of the model of the lineage.
      let isOwn = !card.artifact.hasPrefix("members/")
      let told: [ExactText: Json] = [
        "file": text(isOwn ? file : String(card.artifact.dropFirst("members/".count))),
        "parity_reference": text(isOwn ? "checkpoint" : "first_run"),
      ]
      let turned = try samples.map { try $0.relaid(own, iospec) }
      let place = jobs.count
      try write(card.artifact, to: made(folder.appendingPathComponent("files"), "\(place)"))
      try Sample.write(turned, iospec, to: folder.appendingPathComponent("vectors/\(place)"))
      let digest = digestInputs(turned, iospec)
      for delegate in delegates[opener.runtime] ?? [] {
        let known = fields(card.value, jobs.count, place, opener.runtime, delegate, digest)
        jobs.append(try BenchJob(.object(known.merging(told) { $1 })))
      }
    }
    guard !jobs.isEmpty else {
      throw Failure(
        "The bundle", "it holds nothing that this app can run", "Export it with --to coreml, or build the app with ONNX Runtime")
    }
    return jobs
  }

  private func made(_ folder: URL, _ name: String) throws -> URL {
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return folder.appendingPathComponent(name)
  }

  /// The artifacts' cards, each with the path that it is about.
  func cards() -> [(artifact: String, value: Json)] {
    files.keys.sorted().compactMap { name in
      guard name.hasPrefix("artifacts/") || name.hasPrefix("members/"), name.string.hasSuffix(".json"),
        let value = try? looseJson(files[name]!), value["schema"] == .text("unplug-artifact/1")
      else { return nil }
      return (String(name.string.dropLast(5)), value)
    }
  }

  private func fields(
    _ card: Json, _ number: Int, _ place: Int, _ runtime: String, _ delegate: String, _ digest: String
  ) -> [ExactText: Json] {
    let precision = card["precision"]?.string ?? ""
    return [
      "number": .number(Double(number)), "model_type": card["model_type"] ?? .null,
      "model_sha256": card["checkpoint_sha256"] ?? .null, "artifact_sha256": card["sha256"] ?? .null, "target": card["target"] ?? .null,
      "precision": text(precision), "bytes": card["bytes"] ?? .null, "runtime": text(runtime), "delegate": text(delegate),
      "iospec": card["iospec"] ?? .null, "min_psnr_db": .number(thresholdDb(precision) ?? 100), "flops": card["flops"] ?? .null,
      "inputs_sha256": text(digest), "not_run": .null,
      "model_url": text("files/\(place)"), "vectors_url": text("vectors/\(place)"),
    ]
  }
}

extension Sample {
  /// With the axes of an artifact, by the names of the tensors.
  func relaid(_ own: IOSpec, _ wanted: IOSpec) throws -> Sample {
    func spec(_ name: String, _ side: [TensorSpec]) throws -> TensorSpec {
      guard let found = side.first(where: { $0.name == name }) else { throw Failure(name, "the bundle's model has no such tensor") }
      return found
    }
    var (given, expected) = (inputs, outputs)
    for other in wanted.inputs {
      let from = try spec(other.name, own.inputs)
      guard let values = inputs[other.name]?.floats else { continue }
      given[other.name] = .floats(try UnplugCore.relaid(values, shape: from.shape, from: from.layout, to: other.layout))
    }
    for other in wanted.outputs {
      let from = try spec(other.name, own.outputs)
      expected[other.name] = try UnplugCore.relaid(outputs[other.name] ?? [], shape: from.shape, from: from.layout, to: other.layout)
    }
    return Sample(inputs: given, outputs: expected)
  }

  static func write(_ samples: [Sample], _ iospec: IOSpec, to folder: URL) throws {
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    func entry(_ number: Int, _ spec: TensorSpec, _ values: Values?) throws -> (ExactText, Json) {
      let name = "\(number)-\(spec.name).f32"
      let floats: [Float] =
        switch values {
        case .floats(let own)?: own
        case .ints(let own)?: own.map { Float($0) }
        case nil: []
        }
      try Data(floats.flatMap { $0.bitPattern.littleEndianBytes }).write(to: folder.appendingPathComponent(name))
      return (ExactText(spec.name), .object(["file": text(name), "shape": .list(spec.shape.map { .number(Double($0)) })]))
    }
    let told = try samples.enumerated().map { number, sample in
      let given = try iospec.inputs.map { try entry(number, $0, sample.inputs[$0.name]) }
      let expected = try iospec.outputs.map { try entry(number, $0, sample.outputs[$0.name].map(Values.floats)) }
      return Json.object([
        "inputs": .object(Dictionary(uniqueKeysWithValues: given)), "outputs": .object(Dictionary(uniqueKeysWithValues: expected)),
      ])
    }
    let index: Json = .object(["schema": text("unplug-vectors/1"), "samples": .list(told)])
    try Data(canonical(index)).write(to: folder.appendingPathComponent("vectors.json"))
  }
}

/// As unplug.export.digest_inputs.
func digestInputs(_ samples: [Sample], _ iospec: IOSpec) -> String {
  var whole = Data()
  for spec in iospec.inputs.sorted(by: { ExactText($0.name) < ExactText($1.name) }) {
    let sizes = [samples.count] + spec.shape.dropFirst()
    let written = sizes.map(String.init).joined(separator: ", ") + (sizes.count == 1 ? "," : "")
    whole += Data("\(spec.name)\0\(spec.dtype == "int32" ? "<i4" : "<f4")\0(\(written))\n".utf8)
    for sample in samples {
      switch sample.inputs[spec.name] {
      case .floats(let own)?: whole += Data(own.flatMap { $0.bitPattern.littleEndianBytes })
      case .ints(let own)?: whole += Data(own.flatMap(\.littleEndianBytes))
      case nil: break
      }
    }
  }
  return sha256Hex(whole)
}
