/// Whole numbers of 256 bits, least significant word first.
typealias Words256 = SIMD4<UInt64>

extension SIMD4<UInt64> {
  /// Reads 32 bytes, most significant first.
  init(bigEndian bytes: some Collection<UInt8>) {
    self.init()
    for (place, byte) in bytes.enumerated() { self[3 - place / 8] = self[3 - place / 8] << 8 | UInt64(byte) }
  }

  var isZero: Bool { self == Words256() }

  func isBelow(_ other: Self) -> Bool {
    for place in [3, 2, 1, 0] where self[place] != other[place] { return self[place] < other[place] }
    return false
  }

  /// The sum and what it carries.
  func adding(_ other: Self) -> (Self, Bool) {
    var (sum, carry) = (Self(), false)
    for place in 0..<4 {
      let (half, first) = self[place].addingReportingOverflow(other[place])
      let (whole, second) = half.addingReportingOverflow(carry ? 1 : 0)
      (sum[place], carry) = (whole, first || second)
    }
    return (sum, carry)
  }

  func subtracting(_ other: Self) -> (Self, Bool) {
    var (difference, borrow) = (Self(), false)
    for place in 0..<4 {
      let (half, first) = self[place].subtractingReportingOverflow(other[place])
      let (whole, second) = half.subtractingReportingOverflow(borrow ? 1 : 0)
      (difference[place], borrow) = (whole, first || second)
    }
    return (difference, borrow)
  }

  func bit(_ place: Int) -> Bool { self[place >> 6] >> UInt64(place & 63) & 1 == 1 }
}

/// Arithmetic modulo an odd number of 256 bits, with values in Montgomery's form (a 2^256 mod m).
///
/// It serves the verification of signatures, whose inputs are public: time may depend on them.
///
/// Reference: Montgomery, "Modular Multiplication Without Trial Division", 1985; Koç et al., 1996, section 5 (CIOS).
struct Field256 {
  let modulus: Words256
  let one: Words256
  private let square: Words256
  private let inverse: UInt64

  init(_ modulus: Words256) {
    self.modulus = modulus
    var inverse: UInt64 = 1
    for _ in 0..<6 { inverse = inverse &* (2 &- modulus[0] &* inverse) }
    self.inverse = 0 &- inverse
    // 2^256 mod m is 2^256 - m for these moduli, which are above 2^255; 256 doublings more give 2^512 mod m.
    let one = Words256().subtracting(modulus).0
    self.one = one
    var square = one
    for _ in 0..<256 { square = Field256.sum(square, square, modulus) }
    self.square = square
  }

  func enter(_ value: Words256) -> Words256 { multiply(value, square) }
  func leave(_ value: Words256) -> Words256 { multiply(value, Words256(1, 0, 0, 0)) }
  func add(_ a: Words256, _ b: Words256) -> Words256 { Field256.sum(a, b, modulus) }

  func subtract(_ a: Words256, _ b: Words256) -> Words256 {
    let (difference, borrow) = a.subtracting(b)
    return borrow ? difference.adding(modulus).0 : difference
  }

  private static func sum(_ a: Words256, _ b: Words256, _ modulus: Words256) -> Words256 {
    let (sum, carry) = a.adding(b)
    return carry || !sum.isBelow(modulus) ? sum.subtracting(modulus).0 : sum
  }

  /// a b 2^-256 mod m.
  func multiply(_ a: Words256, _ b: Words256) -> Words256 {
    var (t0, t1, t2, t3, t4): (UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0)
    for place in 0..<4 {
      let word = b[place]
      var carry: UInt64 = 0
      t0 = Field256.step(t0, a[0], word, &carry)
      t1 = Field256.step(t1, a[1], word, &carry)
      t2 = Field256.step(t2, a[2], word, &carry)
      t3 = Field256.step(t3, a[3], word, &carry)
      let (low, over) = t4.addingReportingOverflow(carry)
      let factor = t0 &* inverse
      carry = 0
      _ = Field256.step(t0, modulus[0], factor, &carry)
      t0 = Field256.step(t1, modulus[1], factor, &carry)
      t1 = Field256.step(t2, modulus[2], factor, &carry)
      t2 = Field256.step(t3, modulus[3], factor, &carry)
      let (sum, more) = low.addingReportingOverflow(carry)
      (t3, t4) = (sum, (over ? 1 : 0) + (more ? 1 : 0))
    }
    let found = Words256(t0, t1, t2, t3)
    return t4 != 0 || !found.isBelow(modulus) ? found.subtracting(modulus).0 : found
  }

  /// t + a b + carry: its low word; the high one is the next carry.
  @inline(__always)
  private static func step(_ t: UInt64, _ a: UInt64, _ b: UInt64, _ carry: inout UInt64) -> UInt64 {
    let (high, low) = a.multipliedFullWidth(by: b)
    let (half, first) = low.addingReportingOverflow(t)
    let (whole, second) = half.addingReportingOverflow(carry)
    carry = high &+ (first ? 1 : 0) &+ (second ? 1 : 0)
    return whole
  }

  /// a^(m - 2), the inverse modulo a prime.
  func invert(_ a: Words256) -> Words256 {
    let exponent = modulus.subtracting(Words256(2, 0, 0, 0)).0
    var found = one
    for place in stride(from: 255, through: 0, by: -1) {
      found = multiply(found, found)
      if exponent.bit(place) { found = multiply(found, a) }
    }
    return found
  }
}
