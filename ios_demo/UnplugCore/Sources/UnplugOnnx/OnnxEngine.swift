import Foundation
import UnplugCore

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// ONNX Runtime's C library: on Linux the shared library inside its Python wheel, in an app the one that it links.
///
/// The C interface is a table of functions whose places never change; this names the ones that an engine needs.
final class OnnxRuntime: @unchecked Sendable {
  typealias Handle = OpaquePointer
  typealias Out = UnsafeMutablePointer<Handle?>

  /// Places in the table of version 1 and later.
  enum Place: Int {
    case getErrorMessage = 2, createEnv = 3, createSession = 7, run = 9, createSessionOptions = 10, setIntraOpNumThreads = 24
    case createTensorWithData = 49, getTensorMutableData = 51, getTensorElementType = 60, getTensorShapeElementCount = 64
    case getTensorTypeAndShape = 65, createCpuMemoryInfo = 69, releaseStatus = 93, releaseMemoryInfo = 94, releaseSession = 95
    case releaseValue = 96, releaseTensorTypeAndShapeInfo = 99, releaseSessionOptions = 100
  }

  private static let apiVersion: UInt32 = 11
  private let table: UnsafePointer<UnsafeRawPointer?>
  let version: String
  let environment: Handle
  let memory: Handle

  /// - Parameter library: a path, or nothing for what the program is linked with.
  init(library: String?) throws {
    let missing = Failure("ONNX Runtime", "its library is not here", "Link it, or give the path of the one in its wheel")
    guard let opened = dlopen(library, RTLD_NOW | RTLD_LOCAL), let symbol = dlsym(opened, "OrtGetApiBase") else { throw missing }
    let base = unsafeBitCast(symbol, to: (@convention(c) () -> UnsafePointer<UnsafeRawPointer?>?).self)()
    guard let base, let getApi = base[0], let getVersion = base[1] else { throw missing }
    version = String(cString: unsafeBitCast(getVersion, to: (@convention(c) () -> UnsafePointer<CChar>).self)())
    typealias GetApi = @convention(c) (UInt32) -> UnsafePointer<UnsafeRawPointer?>?
    guard let found = unsafeBitCast(getApi, to: GetApi.self)(OnnxRuntime.apiVersion) else { throw missing }
    table = found
    let errors: Int32 = 3
    var (made, info): (Handle?, Handle?)
    typealias CreateEnv = @convention(c) (Int32, UnsafePointer<CChar>, Out) -> Handle?
    typealias CreateInfo = @convention(c) (Int32, Int32, Out) -> Handle?
    try OnnxRuntime.check(
      found,
      "unplug".withCString { name in
        OnnxRuntime.at(found, .createEnv, CreateEnv.self)(errors, name, &made)
      })
    try OnnxRuntime.check(found, OnnxRuntime.at(found, .createCpuMemoryInfo, CreateInfo.self)(1, 0, &info))
    guard let made, let info else { throw missing }
    (environment, memory) = (made, info)
  }

  private static func at<Function>(_ table: UnsafePointer<UnsafeRawPointer?>, _ place: Place, _ type: Function.Type) -> Function {
    unsafeBitCast(table[place.rawValue]!, to: type)
  }

  func at<Function>(_ place: Place, _ type: Function.Type) -> Function { OnnxRuntime.at(table, place, type) }

  func check(_ status: Handle?) throws { try OnnxRuntime.check(table, status) }

  private static func check(_ table: UnsafePointer<UnsafeRawPointer?>, _ status: Handle?) throws {
    guard let status else { return }
    let message = at(table, .getErrorMessage, (@convention(c) (Handle) -> UnsafePointer<CChar>).self)(status)
    let why = String(cString: message)
    at(table, .releaseStatus, (@convention(c) (Handle) -> Void).self)(status)
    throw Failure("ONNX Runtime", why, "Choose another file")
  }

  func release(_ place: Place, _ handle: Handle?) {
    if let handle { at(place, (@convention(c) (Handle) -> Void).self)(handle) }
  }
}

/// Opens `.onnx` files on the processor.
public struct OnnxOpener: Opener {
  public let runtime = "onnx-app"
  public let delegates = ["cpu"]
  public var version: String? { library.version }
  private let library: OnnxRuntime

  /// - Parameter library: the path of libonnxruntime, or nothing for what the program is linked with.
  public init(library: String? = nil) throws { self.library = try OnnxRuntime(library: library) }

  public func open(_ file: URL, iospec: IOSpec, delegate: String, threads: Int) throws -> any Engine {
    guard delegate == "cpu" else { throw Failure(file.lastPathComponent, "ONNX Runtime runs on the processor here", "Choose cpu") }
    return try OnnxEngine(library, file, iospec, threads)
  }
}

final class OnnxEngine: Engine {
  typealias Handle = OnnxRuntime.Handle

  let iospec: IOSpec
  var delegateGot: String? { "cpu" }
  private let library: OnnxRuntime
  private let session: Handle

  init(_ library: OnnxRuntime, _ file: URL, _ iospec: IOSpec, _ threads: Int) throws {
    (self.library, self.iospec) = (library, iospec)
    typealias CreateOptions = @convention(c) (OnnxRuntime.Out) -> Handle?
    typealias SetThreads = @convention(c) (Handle, Int32) -> Handle?
    typealias CreateSession = @convention(c) (Handle, UnsafePointer<CChar>, Handle, OnnxRuntime.Out) -> Handle?
    var (options, made): (Handle?, Handle?)
    try library.check(library.at(.createSessionOptions, CreateOptions.self)(&options))
    defer { library.release(.releaseSessionOptions, options) }
    try library.check(library.at(.setIntraOpNumThreads, SetThreads.self)(options!, Int32(threads)))
    try library.check(
      file.path.withCString { path in
        library.at(.createSession, CreateSession.self)(library.environment, path, options!, &made)
      })
    session = made!
  }

  deinit { library.release(.releaseSession, session) }

  func run(_ inputs: Tensors) throws -> Tensors {
    var (values, outputs) = ([Handle?](), [Handle?](repeating: nil, count: iospec.outputs.count))
    var kept: [UnsafeMutableRawPointer] = []
    defer {
      for value in values + outputs { library.release(.releaseValue, value) }
      for memory in kept { memory.deallocate() }
    }
    for spec in iospec.inputs {
      guard let given = inputs[spec.name], given.count == spec.count else {
        throw Failure(spec.name, "this input is missing, or has another size", "Give \(spec.shape)")
      }
      let (memory, bytes, kind) = copied(given)
      kept.append(memory)
      values.append(try tensor(memory, bytes, spec.shape, kind))
    }
    typealias Run = @convention(c) (
      Handle, Handle?, UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<Handle?>, Int, UnsafePointer<UnsafePointer<CChar>?>, Int,
      OnnxRuntime.Out
    ) -> Handle?
    let status = withNames(iospec.inputs.map(\.name)) { given in
      withNames(iospec.outputs.map(\.name)) { wanted in
        library.at(.run, Run.self)(session, nil, given, values, values.count, wanted, outputs.count, &outputs)
      }
    }
    try library.check(status)
    var found = Tensors()
    for (spec, value) in zip(iospec.outputs, outputs) { found[spec.name] = .floats(try floats(value!, spec)) }
    return found
  }

  private func copied(_ values: Values) -> (UnsafeMutableRawPointer, Int, Int32) {
    let bytes = 4 * values.count
    let memory = UnsafeMutableRawPointer.allocate(byteCount: max(bytes, 1), alignment: 64)
    switch values {
    case .floats(let own):
      own.withUnsafeBytes { memory.copyMemory(from: $0.baseAddress!, byteCount: bytes) }
      return (memory, bytes, 1)
    case .ints(let own):
      own.withUnsafeBytes { memory.copyMemory(from: $0.baseAddress!, byteCount: bytes) }
      return (memory, bytes, 6)
    }
  }

  private func tensor(_ memory: UnsafeMutableRawPointer, _ bytes: Int, _ shape: [Int], _ kind: Int32) throws -> Handle? {
    typealias Create = @convention(c) (
      Handle, UnsafeMutableRawPointer, Int, UnsafePointer<Int64>, Int, Int32, OnnxRuntime.Out
    ) -> Handle?
    var made: Handle?
    let create = library.at(.createTensorWithData, Create.self)
    try library.check(create(library.memory, memory, bytes, shape.map(Int64.init), shape.count, kind, &made))
    return made
  }

  private func floats(_ value: Handle, _ spec: TensorSpec) throws -> [Float] {
    typealias Info = @convention(c) (Handle, OnnxRuntime.Out) -> Handle?
    typealias Kind = @convention(c) (Handle, UnsafeMutablePointer<Int32>) -> Handle?
    typealias Count = @convention(c) (Handle, UnsafeMutablePointer<Int>) -> Handle?
    typealias Data = @convention(c) (Handle, UnsafeMutablePointer<UnsafeMutableRawPointer?>) -> Handle?
    var (info, kind, count, memory): (Handle?, Int32, Int, UnsafeMutableRawPointer?) = (nil, 0, 0, nil)
    try library.check(library.at(.getTensorTypeAndShape, Info.self)(value, &info))
    defer { library.release(.releaseTensorTypeAndShapeInfo, info) }
    try library.check(library.at(.getTensorElementType, Kind.self)(info!, &kind))
    try library.check(library.at(.getTensorShapeElementCount, Count.self)(info!, &count))
    guard kind == 1, count == spec.count else { throw Failure(spec.name, "the model gave it in another type or size", "Export it again") }
    try library.check(library.at(.getTensorMutableData, Data.self)(value, &memory))
    return Array(UnsafeBufferPointer(start: memory!.assumingMemoryBound(to: Float.self), count: count))
  }
}

/// Calls with an array of C texts.
private func withNames<Result>(_ names: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>) throws -> Result) rethrows -> Result {
  let copies = names.map { strdup($0) }
  defer { for copy in copies { free(copy) } }
  return try copies.map { UnsafePointer($0) }.withUnsafeBufferPointer { try body($0.baseAddress!) }
}
