import Foundation

/// The portable noise stream of docs/formats.md: Philox4x32-10 to words, to uniforms, to normals.
///
/// Number k of a stream depends on the seed, the stream and k alone.
///
/// Reference: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011; Box and Muller, 1958.
public enum NoiseStream {
  /// The stream of a picture's first latent.
  public static let initial: UInt64 = 0
  private static let rounds = 10

  /// Four random words of one counter, least significant word first.
  static func philox(_ counter: SIMD4<UInt32>, _ key: SIMD2<UInt32>) -> SIMD4<UInt32> {
    var (c, k) = (counter, key)
    for _ in 0..<rounds {
      let p = (0xd251_1f53 as UInt32).multipliedFullWidth(by: c[0])
      let q = (0xcd9e_8d57 as UInt32).multipliedFullWidth(by: c[2])
      c = SIMD4(q.high ^ c[1] ^ k[0], q.low, p.high ^ c[3] ^ k[1], p.low)
      k = SIMD2(k[0] &+ 0x9e37_79b9, k[1] &+ 0xbb67_ae85)
    }
    return c
  }

  /// The first words of a stream: word k is word k mod 4 of block floor(k / 4).
  static func words(seed: UInt64, stream: UInt64, count: Int) -> [UInt32] {
    func low(_ value: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: value) }
    func high(_ value: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: value >> 32) }
    var found: [UInt32] = []
    found.reserveCapacity(count + 3)
    for block in 0..<UInt64((count + 3) / 4) {
      let words = philox(SIMD4(low(block), high(block), low(stream), high(stream)), SIMD2(low(seed), high(seed)))
      found += [words[0], words[1], words[2], words[3]]
    }
    return Array(found.prefix(count))
  }

  /// A number in (0, 1): neither end is ever drawn.
  static func uniform(_ word: UInt32) -> Double { (Double(word) + 0.5) / 0x1p32 }

  /// The first standard normals of a stream, in float64, rounded to float32 at the end.
  public static func normals(seed: UInt64, stream: UInt64 = initial, count: Int) -> [Float] {
    let drawn = words(seed: seed, stream: stream, count: count + count % 2)
    var found: [Float] = []
    found.reserveCapacity(drawn.count)
    for place in stride(from: 0, to: drawn.count, by: 2) {
      let radius = sqrt(-2 * log(uniform(drawn[place])))
      let angle = 2 * Double.pi * uniform(drawn[place + 1])
      found.append(Float(radius * cos(angle)))
      found.append(Float(radius * sin(angle)))
    }
    return Array(found.prefix(count))
  }
}
