import Foundation

/// A safetensors file of bounded size, taken apart: raw bytes by name, and the metadata.
struct Safetensors {
  struct Tensor: Equatable {
    let dtype: String
    let shape: [Int]
    let bytes: ArraySlice<UInt8>
  }

  let tensors: [String: Tensor]
  let metadata: [String: String]
  private static let widths = ["F32": 4, "F64": 8, "I64": 8, "U8": 1]

  init(_ data: Data) throws {
    let raw = [UInt8](data)
    func wrong(_ why: String) -> Failure { Failure("The head", why, "Make it again with unplug head make") }
    guard raw.count >= 8 else { throw wrong("it is cut off") }
    let size = (0..<8).reduce(UInt64(0)) { $0 | UInt64(raw[$1]) << UInt64(8 * $1) }
    guard size <= 1 << 20, 8 + Int(size) <= raw.count else { throw wrong("it is cut off") }
    let start = 8 + Int(size)
    guard let header = try looseJson(raw[8..<start]).object else { throw wrong("its header is not a record") }
    var (found, end) = ([String: Tensor](), 0)
    for (name, item) in header where name != "__metadata__" {
      guard let dtype = item["dtype"]?.string, let width = Safetensors.widths[dtype], let sizes = item["shape"]?.list,
        let ends = item["data_offsets"]?.list?.compactMap({ $0.int }), ends.count == 2, ends[0] >= 0, ends[0] <= ends[1],
        start + ends[1] <= raw.count
      else { throw wrong("\(name) lies outside of it") }
      let shape = sizes.compactMap { $0.int }
      let count = shape.reduce(1.0) { $0 * Double($1) }
      guard shape.count == sizes.count, shape.allSatisfy({ $0 >= 0 }), count * Double(width) == Double(ends[1] - ends[0]) else {
        throw wrong("\(name) has another size than its shape")
      }
      found[name.string] = Tensor(dtype: dtype, shape: shape, bytes: raw[(start + ends[0])..<(start + ends[1])])
      end += ends[1] - ends[0]
    }
    guard start + end == raw.count else { throw wrong("it holds more than its tensors") }
    tensors = found
    var texts: [String: String] = [:]
    for (key, value) in header["__metadata__"]?.object ?? [:] { texts[key.string] = value.string }
    metadata = texts
  }

  /// The file of some tensors in the order given.
  static func write(_ tensors: [(String, Tensor)], metadata: [String: String]) -> Data {
    var (fields, at) = ([ExactText: Json](), 0)
    fields["__metadata__"] = .object(Dictionary(uniqueKeysWithValues: metadata.map { (ExactText($0), .text(ExactText($1))) }))
    for (name, tensor) in tensors {
      let ends = [at, at + tensor.bytes.count].map { Json.number(Double($0)) }
      let shape = tensor.shape.map { Json.number(Double($0)) }
      fields[ExactText(name)] = .object(["dtype": .text(ExactText(tensor.dtype)), "shape": .list(shape), "data_offsets": .list(ends)])
      at += tensor.bytes.count
    }
    var header = canonical(.object(fields))
    while header.count % 8 != 0 { header.append(0x20) }
    var found = Data((0..<8).map { UInt8(truncatingIfNeeded: UInt64(header.count) >> UInt64(8 * $0)) })
    found.append(contentsOf: header)
    for (_, tensor) in tensors { found.append(contentsOf: tensor.bytes) }
    return found
  }
}

/// Little-endian numbers to bytes and back, whatever machine this is.
extension FixedWidthInteger {
  var littleEndianBytes: [UInt8] { (0..<Self.bitWidth / 8).map { UInt8(truncatingIfNeeded: self >> Self($0 * 8)) } }

  static func read(_ bytes: ArraySlice<UInt8>) -> [Self] {
    let width = bitWidth / 8
    return stride(from: bytes.startIndex, to: bytes.endIndex, by: width).map { at in
      (0..<width).reduce(Self(0)) { $0 | Self(truncatingIfNeeded: bytes[at + $1]) << Self($1 * 8) }
    }
  }
}
