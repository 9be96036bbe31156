/// One named tensor of a model.
public struct TensorSpec: Equatable, Sendable {
  public let name: String
  public let shape: [Int]
  /// `float32` or `int32`.
  public let dtype: String
  /// A letter an axis: `NCHW`, `NHWC`, `NC`, ...
  public let layout: String
  /// The ends of its values, where it has some.
  public let range: [Double]?
  /// `RGB` of a picture, or nothing.
  public let colour: String?

  public var count: Int { shape.reduce(1, *) }

  /// The size of an axis, 1 where it has none of that letter.
  public func axis(_ letter: Character) -> Int {
    layout.firstIndex(of: letter).map { shape[layout.distance(from: layout.startIndex, to: $0)] } ?? 1
  }

  public var isImage: Bool { layout.sorted() == Array("CHNW") }

  /// The shape with its axes as PyTorch has them.
  public var channelsFirst: [Int] { isImage ? "NCHW".map(axis) : shape }

  init(_ value: Json, what: String) throws {
    let wrong = Failure(what, "a tensor in it has an impossible name, shape or type", "Export it again")
    guard let name = value["name"]?.string, !name.isEmpty, name.utf8.count <= 200, let sizes = value["shape"]?.list,
      let layout = value["layout"]?.string, let dtype = value["dtype"]?.string
    else { throw wrong }
    shape = sizes.compactMap { $0.int }
    let total = shape.reduce(1.0) { $0 * Double($1) }
    guard shape.count == sizes.count, shape.allSatisfy({ $0 >= 1 }), total <= 0x1p28, layout.utf8.count == shape.count,
      ["float32", "int32"].contains(dtype)
    else { throw wrong }
    (self.name, self.layout, self.dtype) = (name, layout, dtype)
    colour = value["colour"]?.string
    let ends = value["range"]?.list?.compactMap { $0.double }
    guard ends == nil || ends!.count == 2 && ends![0] <= ends![1] else { throw wrong }
    range = ends
  }
}

/// The named tensors of a model.
public struct IOSpec: Equatable, Sendable {
  public let inputs: [TensorSpec]
  public let outputs: [TensorSpec]

  public init(_ value: Json?, what: String) throws {
    func side(_ key: ExactText) throws -> [TensorSpec] {
      guard let items = value?[key]?.list, (1...64).contains(items.count) else {
        throw Failure(what, "it names no tensors", "Export it again")
      }
      return try items.map { try TensorSpec($0, what: what) }
    }
    inputs = try side("inputs")
    outputs = try side("outputs")
  }
}

/// The values of a tensor, row by row.
public enum Values: Equatable, Sendable {
  case floats([Float])
  case ints([Int32])

  public var floats: [Float]? { if case .floats(let values) = self { values } else { nil } }
  public var count: Int {
    switch self {
    case .floats(let values): values.count
    case .ints(let values): values.count
    }
  }
}

public typealias Tensors = [String: Values]

/// The same values with their axes in the order of `to`.
///
/// - Parameters:
///   - shape: the sizes of the axes of `from`.
///   - from, to: the same letters.
public func relaid(_ values: [Float], shape: [Int], from: String, to: String) throws -> [Float] {
  if from == to { return values }
  let (old, new) = (Array(from), Array(to))
  guard old.sorted() == new.sorted(), Set(old).count == old.count, shape.count == old.count, shape.reduce(1, *) == values.count else {
    throw Failure("A tensor", "its axes \(from) cannot be laid out as \(to)", "Export it again")
  }
  let order = new.map { letter in old.firstIndex(of: letter)! }
  let strides = shape.indices.map { axis in shape[(axis + 1)...].reduce(1, *) }
  let (sizes, steps) = (order.map { shape[$0] }, order.map { strides[$0] })
  var found = [Float](repeating: 0, count: values.count)
  var place = [Int](repeating: 0, count: sizes.count)
  var source = 0
  for target in found.indices {
    found[target] = values[source]
    for axis in sizes.indices.reversed() {
      place[axis] += 1
      source += steps[axis]
      if place[axis] < sizes[axis] { break }
      source -= steps[axis] * sizes[axis]
      place[axis] = 0
    }
  }
  return found
}
