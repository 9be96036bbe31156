#if canImport(CoreML)
  import CoreML
  import Foundation
  import UnplugCore

  /// Opens `.mlpackage` folders with Core ML, on the units that it may use.
  public struct CoreMLOpener: Opener {
    public let runtime = "coreml-app"
    public let delegates = ["all", "ane", "gpu", "cpu"]
    public var version: String? { ProcessInfo.processInfo.operatingSystemVersionString }

    public init() {}

    /// - Parameter file: a package, under any name, or a compiled `.mlmodelc`.
    public func open(_ file: URL, iospec: IOSpec, delegate: String, threads: Int) throws -> any Engine {
      let configuration = MLModelConfiguration()
      switch delegate {
      case "all": configuration.computeUnits = .all
      case "ane": configuration.computeUnits = .cpuAndNeuralEngine
      case "gpu": configuration.computeUnits = .cpuAndGPU
      case "cpu": configuration.computeUnits = .cpuOnly
      default: throw Failure(delegate, "Core ML has no such units", "Choose \(delegates.joined(separator: ", "))")
      }
      do {
        let model = try MLModel(contentsOf: compiled(file), configuration: configuration)
        return CoreMLEngine(model, iospec, asked: delegate)
      } catch let error as Failure { throw error } catch {
        throw Failure(
          file.lastPathComponent, "Core ML does not open it (\(error.localizedDescription))", "Choose another precision or unit")
      }
    }

    /// Core ML tells what a folder is by its suffix, which a benchmark's folder does not keep.
    private func compiled(_ file: URL) throws -> URL {
      if file.pathExtension == "mlmodelc" { return file }
      if file.pathExtension == "mlpackage" { return try MLModel.compileModel(at: file) }
      let named = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).mlpackage")
      defer { try? FileManager.default.removeItem(at: named) }
      try FileManager.default.copyItem(at: file, to: named)
      return try MLModel.compileModel(at: named)
    }
  }

  final class CoreMLEngine: Engine {
    let iospec: IOSpec
    /// Core ML itself chooses among the units that it may use, and does not tell which it took.
    let delegateGot: String?
    private let model: MLModel

    init(_ model: MLModel, _ iospec: IOSpec, asked: String) {
      (self.model, self.iospec) = (model, iospec)
      delegateGot = asked == "cpu" ? "cpu" : nil
    }

    func run(_ inputs: Tensors) throws -> Tensors {
      var features: [String: Any] = [:]
      for spec in iospec.inputs {
        guard let values = inputs[spec.name], values.count == spec.count else {
          throw Failure(spec.name, "this input is missing, or has another size", "Give \(spec.shape)")
        }
        features[spec.name] = try array(values, spec.shape)
      }
      let found: any MLFeatureProvider
      do { found = try model.prediction(from: MLDictionaryFeatureProvider(dictionary: features)) } catch {
        throw Failure("Core ML", "it does not run this model (\(error.localizedDescription))", "Choose another precision or unit")
      }
      var outputs = Tensors()
      for spec in iospec.outputs {
        guard let values = found.featureValue(for: spec.name)?.multiArrayValue, values.count == spec.count else {
          throw Failure(spec.name, "the model gave no such output, or one of another size", "Export it again")
        }
        outputs[spec.name] = .floats(try floats(values))
      }
      return outputs
    }

    private func array(_ values: Values, _ shape: [Int]) throws -> MLMultiArray {
      let sizes = shape.map { NSNumber(value: $0) }
      switch values {
      case .floats(let own):
        let made = try MLMultiArray(shape: sizes, dataType: .float32)
        try write(own, to: made)
        return made
      case .ints(let own):
        let made = try MLMultiArray(shape: sizes, dataType: .int32)
        try write(own, to: made)
        return made
      }
    }

    private func write<Number>(_ values: [Number], to array: MLMultiArray) throws {
      array.withUnsafeMutableBytes { bytes, strides in
        let places = bytes.bindMemory(to: Number.self)
        forEachPlace(array.shape.map(\.intValue), strides) { number, place in places[place] = values[number] }
      }
    }

    /// Values row by row, whatever strides and type Core ML chose.
    private func floats(_ array: MLMultiArray) throws -> [Float] {
      switch array.dataType {
      case .float32: return read(array, Float.self) { $0 }
      case .double: return read(array, Double.self) { Float($0) }
      case .int32: return read(array, Int32.self) { Float($0) }
      case .float16: return read(array, UInt16.self) { float(half: $0) }
      default: throw Failure("Core ML", "an output is of a type that is not read here", "Export it again")
      }
    }

    private func read<Number>(_ array: MLMultiArray, _ type: Number.Type, _ convert: (Number) -> Float) -> [Float] {
      var found = [Float](repeating: 0, count: array.count)
      let strides = array.strides.map(\.intValue)
      array.withUnsafeBytes { bytes in
        let places = bytes.bindMemory(to: Number.self)
        forEachPlace(array.shape.map(\.intValue), strides) { number, place in found[number] = convert(places[place]) }
      }
      return found
    }
  }
#endif
