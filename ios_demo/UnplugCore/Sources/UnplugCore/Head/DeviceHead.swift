import Foundation

/// A head that a phone adds its owner's pictures to and forgets them from, offline and exactly; docs/formats.md has its steps.
///
/// Shapes: C pooled channels, D lifted features, G age groups or classes, K = D + 1 + G (features, one, groups), of ages and one more: the
/// age. The truth of a picture is an age in years, or the number of its class.
public struct DeviceHead: Sendable {
  private static let bits = 20.0
  private static let width = 4.0
  private static let restore = "Make it again with unplug head make"
  private static let maxGroups = 1000
  private static let keys: Set<ExactText> = ["trunk_sha256", "grid", "ridge", "scale", "digest", "schema"]

  let facts: Json
  let grid: Double
  let ridge: Double
  let scale: Double
  /// Borders of the age groups; none: it tells classes.
  let edges: [Double]
  /// Names; none: it tells ages.
  public let classes: [String]
  private let lift: [Float]
  private let offset: [Float]
  private let centers: [Double]
  private let channels: Int
  /// The upper triangle of the sum of z zᵀ over everybody who is in, row by row.
  private var sums: [Int64]
  private(set) var committed: Set<[UInt8]>

  private var features: Int { offset.count }
  private var isAged: Bool { classes.isEmpty }
  private var size: Int { features + 1 + centers.count + (isAged ? 1 : 0) }

  /// - Throws: `Failure`: no head, one that was edited or cut, or numbers that do not belong together.
  public init(_ data: Data) throws {
    func wrong(_ why: String) -> Failure { Failure("The head", why, DeviceHead.restore) }
    let file = try Safetensors(data)
    guard let text = file.metadata["unplug"], let facts = try? looseJson(Array(text.utf8)), facts["schema"] == .text("unplug-head/1"),
      let grid = facts["grid"]?.double, let ridge = facts["ridge"]?.double, let scale = facts["scale"]?.double,
      (exp2(-40)...exp2(10)).contains(grid), (1e-9...1e6).contains(ridge), (1e-6...1e6).contains(scale),
      let (edges, classes) = DeviceHead.groups(facts)
    else { throw wrong("its settings are out of range") }
    let kinds = ["lift": "F32", "offset": "F32", "centers": "F64", "sums": "I64", "committed": "U8"]
    guard file.tensors.mapValues(\.dtype) == kinds else { throw wrong("its tensors are not those of a head") }
    let lift = file.tensors["lift"]!
    let (groups, rows) = (classes.isEmpty ? edges.count - 1 : classes.count, file.tensors["committed"]!.shape)
    guard lift.shape.count == 2, lift.shape.allSatisfy({ (1...4096).contains($0) }), groups <= DeviceHead.maxGroups, rows.count == 2,
      rows[1] == 32, (1...2_000_000).contains(rows[0])
    else { throw wrong("it is larger than any head, or has other shapes") }
    let size = lift.shape[0] + 1 + groups + (classes.isEmpty ? 1 : 0)
    guard file.tensors["offset"]!.shape == [lift.shape[0]], file.tensors["centers"]!.shape == [groups],
      file.tensors["sums"]!.shape == [size * (size + 1) / 2]
    else { throw wrong("its tensors have other shapes") }
    (self.facts, self.grid, self.ridge, self.scale, self.edges, self.classes) = (facts, grid, ridge, scale, edges, classes)
    channels = lift.shape[1]
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

  /// Borders of age groups or names of classes: a head says one of them, never both.
  private static func groups(_ facts: Json) -> (edges: [Double], classes: [String])? {
    if let said = facts["classes"]?.list {
      let classes = said.compactMap(\.text)
      guard facts.hasKeys(keys.union(["classes"])), classes.count == said.count, classes.count >= 2, Set(classes).count == classes.count,
        classes.allSatisfy({ (1...100).contains($0.string.unicodeScalars.count) })
      else { return nil }
      return ([], classes.map(\.string))
    }
    guard facts.hasKeys(keys.union(["edges"])), let said = facts["edges"]?.list else { return nil }
    let edges = said.compactMap(\.double)
    guard edges.count == said.count, edges.count >= 3, zip(edges, edges.dropFirst()).allSatisfy({ $0 < $1 }) else { return nil }
    return (edges, [])
  }

  private func sum(_ row: Int, _ column: Int) -> Int64 { sums[row * size - row * (row - 1) / 2 + column - row] }

  /// With one more picture: its name, the trunk's features of it, and the truth.
  public func adding(_ name: String, _ pooled: [Double], truth: Double) throws -> DeviceHead {
    let commitment = try commitment(name, pooled, truth: truth)
    guard !committed.contains(commitment) else {
      throw Failure("The picture \(name)", "it is in this head already", "Give other pictures other names")
    }
    var next = self
    next.committed.insert(commitment)
    next.move(try terms(pooled, truth), by: 1)
    return next
  }

  /// Without a picture, as if it had never been there, bit for bit.
  public func removing(_ name: String, _ pooled: [Double], truth: Double) throws -> DeviceHead {
    let commitment = try commitment(name, pooled, truth: truth)
    guard committed.contains(commitment) else {
      let word = isAged ? "age" : "class"
      let why = "this picture, under this name and with this \(word), is not in this head"
      throw Failure("The picture \(name)", why, "Give name, picture and \(word) as they were added")
    }
    guard committed.count > 1 else { throw Failure("The picture \(name)", "nobody would be left in this head", "Delete the head instead") }
    var next = self
    next.committed.remove(commitment)
    next.move(try terms(pooled, truth), by: -1)
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

  /// SHA-256 of the name in UTF-8, a zero byte, the rounded features as int32 and the truth as float64, little-endian.
  func commitment(_ name: String, _ pooled: [Double], truth: Double) throws -> [UInt8] {
    var bytes = Array(name.utf8) + [0]
    for step in try steps(pooled) { bytes += Int32(step).littleEndianBytes }
    return sha256(Data(bytes + truth.bitPattern.littleEndianBytes))
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

  /// The numbers of a picture in the sums: features, one, targets; in units of 2^-20 of each column's range.
  private func terms(_ pooled: [Double], _ truth: Double) throws -> [Int64] {
    let rounded = try steps(pooled).map { $0 * grid }
    let z = lifted(rounded, most: 64) + [1] + (try targets(truth))
    return zip(z, exponents).map { Int64(($0 * exp2(DeviceHead.bits - $1)).rounded(.toNearestOrEven)) }
  }

  /// Soft age groups and the age, or 1 for the class.
  private func targets(_ truth: Double) throws -> [Double] {
    guard isAged else {
      let targets = classes.indices.map { Double($0) == truth ? 1.0 : 0.0 }
      guard targets.contains(1) else {
        throw Failure("The class \(truth)", "no class has this number", "Give that of one of the \(classes.count) classes")
      }
      return targets
    }
    guard truth >= 0, truth < 128 else { throw Failure("The age \(truth)", "it is not an age", "Give years from 0 up to 127") }
    let logs = centers.map { -0.5 * pow(($0 - truth) / DeviceHead.width, 2) }
    let top = logs.max()!
    let odds = logs.map { exp($0 - top) }
    let total = odds.reduce(0, +)
    return odds.map { $0 / total } + [truth]
  }

  /// Powers of two that each column stays below.
  private var exponents: [Double] {
    [Double](repeating: 6, count: features) + [Double](repeating: 1, count: 1 + centers.count) + (isAged ? [7] : [])
  }

  /// W and b, a row a group and one of the age if there is one: argmin sum |W a + b - y|^2 + ridge N |W|^2, by Cholesky of the scaled normal equations.
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

  /// Logits of the groups of a picture, and its age or likeliest labels, of the trunk's features, which are not rounded here.
  public func answer(_ pooled: [Double]) throws -> (logits: [Double], said: Answer) { try answers([pooled])[0] }

  /// As `answer`, of several pictures: the head is computed once.
  func answers(_ all: [[Double]]) throws -> [(logits: [Double], said: Answer)] {
    let (weight, bias) = try weights()
    return try all.map { pooled in
      let a = lifted(pooled, most: .infinity)
      let said = zip(weight, bias).map { row, own in zip(row, a).reduce(own) { $0 + $1.0 * $1.1 } }
      guard said.allSatisfy(\.isFinite) else {
        throw Failure("The head", "it answers with something other than numbers", DeviceHead.restore)
      }
      let logits = said.prefix(centers.count).map { scale * $0 }
      guard isAged else { return (logits, Answer(likeliestLabels(logits, classes))) }
      return (logits, Answer(years: min(max(said.last!, edges.first!), edges.last!), []))
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
