/// SHA-256 (FIPS 180-4).
struct Sha256 {
  private var state: [UInt32] = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
  ]
  private var words = [UInt32](repeating: 0, count: 64)

  static func digest(_ bytes: some Collection<UInt8>) -> [UInt8] {
    var hash = Sha256()
    let found: [UInt8]? = bytes.withContiguousStorageIfAvailable { hash.all($0) }
    return found ?? Array(bytes).withUnsafeBufferPointer { hash.all($0) }
  }

  private mutating func all(_ bytes: UnsafeBufferPointer<UInt8>) -> [UInt8] {
    let whole = bytes.count & ~63
    var at = 0
    while at < whole {
      block(UnsafeBufferPointer(rebasing: bytes[at..<at + 64]))
      at += 64
    }
    var tail = Array(bytes[whole...]) + [0x80]
    while tail.count % 64 != 56 { tail.append(0) }
    let bits = UInt64(bytes.count) * 8
    tail += (0..<8).map { UInt8(truncatingIfNeeded: bits >> (56 - 8 * UInt64($0))) }
    tail.withUnsafeBufferPointer { rest in
      for start in stride(from: 0, to: rest.count, by: 64) { block(UnsafeBufferPointer(rebasing: rest[start..<start + 64])) }
    }
    return state.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - 8 * UInt32($0))) } }
  }

  private mutating func block(_ bytes: UnsafeBufferPointer<UInt8>) {
    func turn(_ value: UInt32, _ by: UInt32) -> UInt32 { value >> by | value << (32 - by) }
    words.withUnsafeMutableBufferPointer { w in
      for t in 0..<16 {
        let at = 4 * t
        w[t] = UInt32(bytes[at]) << 24 | UInt32(bytes[at + 1]) << 16 | UInt32(bytes[at + 2]) << 8 | UInt32(bytes[at + 3])
      }
      for t in 16..<64 {
        let (x, y) = (w[t - 15], w[t - 2])
        let low = turn(x, 7) ^ turn(x, 18) ^ x >> 3
        let high = turn(y, 17) ^ turn(y, 19) ^ y >> 10
        w[t] = w[t - 16] &+ low &+ w[t - 7] &+ high
      }
      var (a, b, c, d) = (state[0], state[1], state[2], state[3])
      var (e, f, g, h) = (state[4], state[5], state[6], state[7])
      for t in 0..<64 {
        let first = h &+ (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) &+ (e & f ^ ~e & g) &+ Sha256.constants[t] &+ w[t]
        let second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) &+ (a & b ^ a & c ^ b & c)
        (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
      }
      for (place, word) in [a, b, c, d, e, f, g, h].enumerated() { state[place] = state[place] &+ word }
    }
  }

  /// The first 32 bits of the fractions of the cube roots of the first 64 primes.
  private static let constants: [UInt32] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
  ]
}
