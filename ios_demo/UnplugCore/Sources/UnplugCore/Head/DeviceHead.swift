import Foundation

/// A head that a phone adds its owner's pictures to and forgets them from, offline and exactly; docs/formats.md has its steps.
///
/// Shapes: C pooled channels, D lifted features, G age groups, K = D + 1 + G + 1 (features, one, groups, age).
public struct DeviceHead: Sendable {
  private static let bits = 20.0
  private static let width = 4.0
  private static let restore = "Make it again with unplug head make"

  let facts: Json
  let grid: Double
  let ridge: Double
  let scale: Double
  let edges: [Double]
  private let lift: [Float]
  private let offset: [Float]
  private let centers: [Double]
  private let channels: Int
  /// The upper triangle of the sum of z zᵀ over everybody who is in, row by row.
  private var sums: [Int64]
  private(set) var committed: Set<[UInt8]>

  private var features: Int { offset.count }
  private var size: Int { features + centers.count + 2 }

  /// - Throws: `Failure`: no head, one that was edited or cut, or numbers that do not belong together.
  public init(_ data: Data) throws {
    func wrong(_ why: String) -> Failure { Failure("The head", why, DeviceHead.restore) }
    let file = try Safetensors(data)
    guard let text = file.metadata["unplug"], let facts = try? looseJson(Array(text.utf8)), facts["schema"] == .text("unplug-head/1"),
      let grid = facts["grid"]?.double, let ridge = facts["ridge"]?.double, let scale = facts["scale"]?.double,
      let edges = facts["edges"]?.list?.compactMap({ $0.double }), min(grid, ridge, scale) > 0, edges.count >= 3,
      zip(edges, edges.dropFirst()).allSatisfy({ $0 < $1 })
    else { throw wrong("its settings are out of range") }
    let kinds = ["lift": "F32", "offset": "F32", "centers": "F64", "sums": "I64", "committed": "U8"]
    guard file.tensors.mapValues(\.dtype) == kinds else { throw wrong("its tensors are not those of a head") }
    let lift = file.tensors["lift"]!
    let (groups, rows) = (edges.count - 1, file.tensors["committed"]!.shape)
    guard lift.shape.count == 2, lift.shape.allSatisfy({ (1...4096).contains($0) }), groups <= 256, rows.count == 2, rows[1] == 32,
      (1...2_000_000).contains(rows[0])
    else { throw wrong("it is larger than any head, or has other shapes") }
    let size = lift.shape[0] + groups + 2
    guard file.tensors["offset"]!.shape == [lift.shape[0]], file.tensors["centers"]!.shape == [groups],
      file.tensors["sums"]!.shape == [size * (size + 1) / 2]
    else { throw wrong("its tensors have other shapes") }
    (self.facts, self.grid, self.ridge, self.scale, self.edges, channels) = (facts, grid, ridge, scale, edges, lift.shape[1])
    self.lift = UInt32.read(lift.bytes).map { Float(bitPattern: $0) }
    offset = UInt32.read(file.tensors["offset"]!.bytes).map { Float(bitPattern: $0) }
    centers = UInt64.read(file.tensors["centers"]!.bytes).map { Double(bitPattern: $0) }
    sums = Int64.read(file.tensors["sums"]!.bytes)
    let raw = Array(file.tensors["committed"]!.bytes)
    committed = Set(stride(from: 0, to: raw.count, by: 32).map { Array(raw[$0..<$0 + 32]) })
    guard digest == facts["digest"]?.string else { throw wrong("its numbers are not those that were written") }
    let inside = sum(features, features) >> 38
    guard committed.count == rows[0], inside == Int64(rows[0]), (self.lift + offset).allSatisfy(\.isFinite),
      centers.allSatisfy(\.isFinite), (0..<size).allSatisfy({ sum($0, $0) >= 0 })
    else { throw wrong("its sums hold \(inside) pictures where \(rows[0]) are named") }
  }

  private func sum(_ row: Int, _ column: Int) -> Int64 { sums[row * size - row * (row - 1) / 2 + column - row] }

  /// With one more picture: its name, the trunk's features of it, and an age in years.
  public func adding(_ name: String, _ pooled: [Double], age: Double) throws -> DeviceHead {
    let commitment = try commitment(name, pooled, age: age)
    guard !committed.contains(commitment) else {
      throw Failure("The picture \(name)", "it is in this head already", "Give other pictures other names")
    }
    var next = self
    next.committed.insert(commitment)
    next.move(try terms(pooled, age), by: 1)
    return next
  }

  /// Without a picture, as if it had never been there, bit for bit.
  public func removing(_ name: String, _ pooled: [Double], age: Double) throws -> DeviceHead {
    let commitment = try commitment(name, pooled, age: age)
    guard committed.contains(commitment) else {
      let why = "this picture, under this name and with this age, is not in this head"
      throw Failure("The picture \(name)", why, "Give name, picture and age as they were added")
    }
    guard committed.count > 1 else { throw Failure("The picture \(name)", "nobody would be left in this head", "Delete the head instead") }
    var next = self
    next.committed.remove(commitment)
    next.move(try terms(pooled, age), by: -1)
    return next
  }

  private mutating func move(_ z: [Int64], by sign: Int64) {
    var at = 0
    for row in z.indices {
      for column in row..<z.count {
        sums[at] += sign * z[row] * z[column]
        at += 1
      }
    }
  }

  /// SHA-256 of the name in UTF-8, a zero byte, the rounded features as int32 and the age as float64, little-endian.
  func commitment(_ name: String, _ pooled: [Double], age: Double) throws -> [UInt8] {
    var bytes = Array(name.utf8) + [0]
    for step in try steps(pooled) { bytes += Int32(step).littleEndianBytes }
    return sha256(Data(bytes + age.bitPattern.littleEndianBytes))
  }

  /// Features in whole steps of the grid.
  private func steps(_ pooled: [Double]) throws -> [Double] {
    let steps = pooled.map { ($0 / grid).rounded(.toNearestOrEven) }
    guard steps.count == channels, steps.allSatisfy({ abs($0) < 0x1p31 }) else {
      throw Failure("The picture", "its features are not those of this trunk", "Give what the exported trunk says of it")
    }
    return steps
  }

  private func lifted(_ pooled: [Double], most: Double) -> [Double] {
    (0..<features).map { row in
      let total = (0..<channels).reduce(0.0) { $0 + Double(lift[row * channels + $1]) * pooled[$1] }
      return min(max(total + Double(offset[row]), 0), most)
    }
  }

  /// The numbers of a picture in the sums: features, one, soft age groups, age; in units of 2^-20 of each column's range.
  private func terms(_ pooled: [Double], _ age: Double) throws -> [Int64] {
    guard age >= 0, age < 128 else { throw Failure("The age \(age)", "it is not an age", "Give years from 0 up to 127") }
    let rounded = try steps(pooled).map { $0 * grid }
    let logs = centers.map { -0.5 * pow(($0 - age) / DeviceHead.width, 2) }
    let top = logs.max()!
    let odds = logs.map { exp($0 - top) }
    let total = odds.reduce(0, +)
    let z = lifted(rounded, most: 64) + [1] + odds.map { $0 / total } + [age]
    return zip(z, exponents).map { Int64(($0 * exp2(DeviceHead.bits - $1)).rounded(.toNearestOrEven)) }
  }

  /// Powers of two that each column stays below.
  private var exponents: [Double] {
    [Double](repeating: 6, count: features) + [Double](repeating: 1, count: 1 + centers.count) + [7]
  }

  /// W (G + 1, D) and b (G + 1): argmin sum |W a + b - y|^2 + ridge N |W|^2, by Cholesky of the scaled normal equations.
  func weights() throws -> (weight: [[Double]], bias: [Double]) {
    let (e, count) = (exponents, features + 1)
    func gram(_ row: Int, _ column: Int) -> Double {
      Double(sum(min(row, column), max(row, column))) * exp2(-2 * DeviceHead.bits) * exp2(e[row] + e[column])
    }
    var a = (0..<count).map { row in (0..<count).map { gram(row, $0) } }
    for row in 0..<features { a[row][row] += ridge * Double(committed.count) }
    let s = (0..<count).map { 1 / sqrt(a[$0][$0]) }
    let scaled = (0..<count).map { row in (0..<count).map { s[row] * a[row][$0] * s[$0] } }
    guard let low = cholesky(scaled) else { throw Failure("The head", "its equations are singular", DeviceHead.restore) }
    var (weight, bias) = ([[Double]](), [Double]())
    for column in count..<size {
      let solved = solve(low, (0..<count).map { s[$0] * gram($0, column) })
      let u = zip(s, solved).map { $0 * $1 }
      weight.append(Array(u.dropLast()))
      bias.append(u.last!)
    }
    return (weight, bias)
  }

  /// Logits of the age groups and the expected age of a picture, of the trunk's features, which are not rounded here.
  public func answer(_ pooled: [Double]) throws -> (logits: [Double], years: Double) { try answers([pooled])[0] }

  /// As `answer`, of several pictures: the head is computed once.
  func answers(_ all: [[Double]]) throws -> [(logits: [Double], years: Double)] {
    let (weight, bias) = try weights()
    return all.map { pooled in
      let a = lifted(pooled, most: .infinity)
      let said = zip(weight, bias).map { row, own in zip(row, a).reduce(own) { $0 + $1.0 * $1.1 } }
      return (said.dropLast().map { scale * $0 }, min(max(said.last!, edges.first!), edges.last!))
    }
  }

  // The file

  private var tensors: [(String, Safetensors.Tensor)] {
    let rows = committed.sorted { $0.lexicographicallyPrecedes($1) }.flatMap { $0 }
    func tensor(_ dtype: String, _ shape: [Int], _ bytes: [UInt8]) -> Safetensors.Tensor {
      Safetensors.Tensor(dtype: dtype, shape: shape, bytes: bytes[...])
    }
    return [
      ("lift", tensor("F32", [features, channels], lift.flatMap { $0.bitPattern.littleEndianBytes })),
      ("offset", tensor("F32", [features], offset.flatMap { $0.bitPattern.littleEndianBytes })),
      ("centers", tensor("F64", [centers.count], centers.flatMap { $0.bitPattern.littleEndianBytes })),
      ("sums", tensor("I64", [sums.count], sums.flatMap(\.littleEndianBytes))),
      ("committed", tensor("U8", [committed.count, 32], rows)),
    ]
  }

  /// SHA-256 over name, a zero byte and the bytes of each tensor.
  var digest: String {
    sha256Hex(Data(tensors.flatMap { name, tensor in Array(name.utf8) + [0] + tensor.bytes }))
  }

  /// The file, which `init` and Python read.
  public func data() -> Data {
    var fields = facts.object!
    fields["digest"] = .text(ExactText(digest))
    let text = String(decoding: canonical(.object(fields)), as: UTF8.self)
    // Widest types first, as safetensors lays them out.
    let order = ["centers", "sums", "lift", "offset", "committed"]
    let sorted = tensors.sorted { order.firstIndex(of: $0.0)! < order.firstIndex(of: $1.0)! }
    return Safetensors.write(sorted, metadata: ["unplug": text])
  }
}

/// L of A = L Lᵀ, or nothing where A is not positive definite.
private func cholesky(_ a: [[Double]]) -> [[Double]]? {
  var low = a
  for row in a.indices {
    for column in 0...row {
      let rest = (0..<column).reduce(a[row][column]) { $0 - low[row][$1] * low[column][$1] }
      if row == column {
        guard rest > 0 else { return nil }
        low[row][row] = sqrt(rest)
      } else {
        low[row][column] = rest / low[column][column]
      }
    }
  }
  return low
}

/// x of L Lᵀ x = b.
private func solve(_ low: [[Double]], _ b: [Double]) -> [Double] {
  var x = b
  for row in x.indices { x[row] = (0..<row).reduce(x[row]) { $0 - low[row][$1] * x[$1] } / low[row][row] }
  for row in x.indices.reversed() {
    x[row] = (row + 1..<x.count).reduce(x[row]) { $0 - low[$1][row] * x[$1] } / low[row][row]
  }
  return x
}
