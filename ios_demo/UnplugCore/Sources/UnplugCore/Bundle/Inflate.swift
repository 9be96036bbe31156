/// Deflate (RFC 1951), unpacked within a bound that is known before.
struct Inflate {
  private let bytes: ArraySlice<UInt8>
  private let size: Int
  private var at: Int
  private var bits: UInt32 = 0
  private var held = 0
  private var out: [UInt8] = []

  /// - Parameter size: the number of unpacked bytes; more or fewer are an error, found before the rest is unpacked.
  static func unpack(_ bytes: ArraySlice<UInt8>, size: Int) throws -> [UInt8] {
    var state = Inflate(bytes: bytes, size: size)
    try state.all()
    guard state.out.count == size else { throw Refused(.archive, "an entry of the zip file is smaller than it says") }
    return state.out
  }

  private init(bytes: ArraySlice<UInt8>, size: Int) {
    (self.bytes, self.size, at) = (bytes, size, bytes.startIndex)
    out.reserveCapacity(min(size, 1 << 24))
  }

  private var damaged: Refused { Refused(.archive, "the zip file is damaged") }

  private mutating func all() throws {
    var last = false
    while !last {
      last = try take(1) == 1
      switch try take(2) {
      case 0: try stored()
      case 1: try packed(Inflate.fixedLengths, Inflate.fixedDistances)
      case 2:
        let (lengths, distances) = try tables()
        try packed(lengths, distances)
      default: throw damaged
      }
    }
  }

  private mutating func take(_ count: Int) throws -> Int {
    while held < count {
      guard at < bytes.endIndex else { throw damaged }
      bits |= UInt32(bytes[at]) << UInt32(held)
      at += 1
      held += 8
    }
    defer {
      bits >>= UInt32(count)
      held -= count
    }
    return Int(bits & ((1 << UInt32(count)) - 1))
  }

  private func room(_ count: Int) throws {
    guard out.count + count <= size else { throw Refused(.archive, "an entry of the zip file is larger than it says") }
  }

  private mutating func stored() throws {
    (bits, held) = (0, 0)
    guard at + 4 <= bytes.endIndex else { throw damaged }
    let count = Int(bytes[at]) | Int(bytes[at + 1]) << 8
    let check = Int(bytes[at + 2]) | Int(bytes[at + 3]) << 8
    guard count ^ check == 0xffff, at + 4 + count <= bytes.endIndex else { throw damaged }
    try room(count)
    out += bytes[(at + 4)..<(at + 4 + count)]
    at += 4 + count
  }

  private mutating func packed(_ lengths: Codes, _ distances: Codes) throws {
    while true {
      let symbol = try decode(lengths)
      if symbol == 256 { return }
      if symbol < 256 {
        try room(1)
        out.append(UInt8(symbol))
        continue
      }
      guard symbol < 286 else { throw damaged }
      let count = Inflate.lengthBase[symbol - 257] + (try take(Inflate.lengthBits[symbol - 257]))
      let place = try decode(distances)
      guard place < 30 else { throw damaged }
      let distance = Inflate.distanceBase[place] + (try take(place < 2 ? 0 : (place - 2) / 2))
      guard distance <= out.count else { throw damaged }
      try room(count)
      for _ in 0..<count { out.append(out[out.count - distance]) }
    }
  }

  private mutating func decode(_ codes: Codes) throws -> Int {
    var (code, first, index) = (0, 0, 0)
    for length in 1..<16 {
      code |= try take(1)
      let count = codes.counts[length]
      if code - first < count { return codes.symbols[index + code - first] }
      index += count
      first = (first + count) << 1
      code <<= 1
    }
    throw damaged
  }

  private mutating func tables() throws -> (Codes, Codes) {
    let counts = (try take(5) + 257, try take(5) + 1, try take(4) + 4)
    guard counts.0 <= 286, counts.1 <= 30 else { throw damaged }
    var order = [Int](repeating: 0, count: 19)
    for place in 0..<counts.2 { order[Inflate.order[place]] = try take(3) }
    guard let outer = Codes(order, partial: false) else { throw damaged }
    var lengths: [Int] = []
    while lengths.count < counts.0 + counts.1 {
      switch try decode(outer) {
      case 16:
        guard let last = lengths.last else { throw damaged }
        lengths += [Int](repeating: last, count: 3 + (try take(2)))
      case 17: lengths += [Int](repeating: 0, count: 3 + (try take(3)))
      case 18: lengths += [Int](repeating: 0, count: 11 + (try take(7)))
      case let length: lengths.append(length)
      }
    }
    guard lengths.count == counts.0 + counts.1, lengths[256] != 0,
      let first = Codes(Array(lengths[..<counts.0]), partial: true),
      let second = Codes(Array(lengths[counts.0...]), partial: true)
    else { throw damaged }
    return (first, second)
  }

  /// A canonical Huffman code: how many codes have each length, and the symbols in the order of their codes.
  private struct Codes {
    var counts = [Int](repeating: 0, count: 16)
    var symbols: [Int] = []

    /// Nothing where the lengths are not a code; `partial` allows the one incomplete code that deflate has, of one symbol.
    init?(_ lengths: [Int], partial: Bool) {
      for length in lengths { counts[length] += 1 }
      counts[0] = 0
      var left = 1
      for length in 1..<16 {
        left = left << 1 - counts[length]
        if left < 0 { return nil }
      }
      let used = counts.reduce(0, +)
      if left > 0, !partial || used > 1 { return nil }
      for length in 1..<16 { symbols += lengths.indices.filter { lengths[$0] == length } }
    }
  }

  private static let order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
  private static let lengthBits = (0..<29).map { $0 == 28 || $0 < 4 ? 0 : $0 / 4 - 1 }
  private static let lengthBase: [Int] = {
    var found = [3]
    for place in 0..<27 { found.append(found[place] + 1 << lengthBits[place]) }
    return found + [258]
  }()
  private static let distanceBase: [Int] = {
    var found = [1]
    for place in 0..<29 { found.append(found[place] + 1 << (place < 2 ? 0 : (place - 2) / 2)) }
    return found
  }()
  private static let fixedLengths = Codes(
    (0..<288).map { $0 < 144 ? 8 : $0 < 256 ? 9 : $0 < 280 ? 7 : 8 }, partial: false)!
  private static let fixedDistances = Codes([Int](repeating: 5, count: 32), partial: false)!
}
