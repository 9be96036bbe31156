import Foundation

/// One model, opened: what an app's runtime gives the core.
///
/// Values have the axes that `iospec` says. Runs come one after the other; an engine need not be safe to share.
public protocol Engine: AnyObject {
  var iospec: IOSpec { get }
  /// What ran the operators, as far as the runtime tells: `cpu`, `gpu`, `ane`.
  var delegateGot: String? { get }
  func run(_ inputs: Tensors) throws -> Tensors
}

/// Opens files of one runtime.
public protocol Opener: Sendable {
  /// `coreml-app`, `onnx-app`: the name of the runtime in reports.
  var runtime: String { get }
  var version: String? { get }
  /// What it can be asked for, the preferred one first.
  var delegates: [String] { get }
  func open(_ file: URL, iospec: IOSpec, delegate: String, threads: Int) throws -> any Engine
}

extension Opener {
  /// The delegate of small networks.
  var processor: String { delegates.contains("cpu") ? "cpu" : delegates[0] }
}

extension Engine {
  /// Runs with images channels first, whatever axes the file has.
  public func runChannelsFirst(_ inputs: Tensors) throws -> Tensors {
    var given = inputs
    for spec in iospec.inputs where spec.isImage {
      guard let values = inputs[spec.name]?.floats else { continue }
      given[spec.name] = .floats(try relaid(values, shape: spec.channelsFirst, from: "NCHW", to: spec.layout))
    }
    var found = try run(given)
    for spec in iospec.outputs {
      guard let values = found[spec.name]?.floats, values.count == spec.count else {
        throw Failure(spec.name, "the model gave no such output, or one of another size", "Export it again")
      }
      if spec.isImage { found[spec.name] = .floats(try relaid(values, shape: spec.shape, from: spec.layout, to: "NCHW")) }
    }
    return found
  }
}
