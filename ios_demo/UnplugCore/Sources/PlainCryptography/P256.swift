/// Verification of ECDSA signatures over the curve P-256 (FIPS 186-5, section 6.4.2).
///
/// It makes no signatures and holds no secrets. Points are in Jacobian coordinates (x / z^2, y / z^3), numbers in
/// Montgomery's form; z = 0 is the point at infinity.
struct P256 {
  static let prime = Words256(0xffff_ffff_ffff_ffff, 0x0000_0000_ffff_ffff, 0, 0xffff_ffff_0000_0001)
  static let order = Words256(0xf3b9_cac2_fc63_2551, 0xbce6_faad_a717_9e84, 0xffff_ffff_ffff_ffff, 0xffff_ffff_0000_0000)
  private static let field = Field256(prime)
  private static let scalars = Field256(order)
  private static let b = field.enter(Words256(0x3bce_3c3e_27d2_604b, 0x651d_06b0_cc53_b0f6, 0xb3eb_bd55_7698_86bc, 0x5ac6_35d8_aa3a_93e7))
  private static let generator = Point(
    x: field.enter(Words256(0xf4a1_3945_d898_c296, 0x7703_7d81_2deb_33a0, 0xf8bc_e6e5_63a4_40f2, 0x6b17_d1f2_e12c_4247)),
    y: field.enter(Words256(0xcbb6_4068_37bf_51f5, 0x2bce_3357_6b31_5ece, 0x8ee7_eb4a_7c0f_9e16, 0x4fe3_42e2_fe1a_7f9b)), z: field.one)

  struct Point {
    var x: Words256
    var y: Words256
    var z: Words256
  }

  private let key: Point

  /// - Parameter bytes: x and y, 32 bytes each; nothing where they are not a point of the curve.
  init?(bytes: some Collection<UInt8>) {
    guard bytes.count == 64 else { return nil }
    let (x, y) = (Words256(bigEndian: bytes.prefix(32)), Words256(bigEndian: bytes.suffix(32)))
    guard x.isBelow(P256.prime), y.isBelow(P256.prime) else { return nil }
    let f = P256.field
    let (a, c) = (f.enter(x), f.enter(y))
    // y^2 = x^3 - 3 x + b; the curve has a prime order, so every point of it will do.
    let cube = f.multiply(f.multiply(a, a), a)
    let right = f.add(f.subtract(cube, f.add(f.add(a, a), a)), P256.b)
    guard f.multiply(c, c) == right else { return nil }
    key = Point(x: a, y: c, z: f.one)
  }

  /// Whether (r, s) signs a digest of 32 bytes.
  func verifies(r: Words256, s: Words256, digest: [UInt8]) -> Bool {
    let n = P256.scalars
    guard !r.isZero, !s.isZero, r.isBelow(P256.order), s.isBelow(P256.order) else { return false }
    var hash = Words256(bigEndian: digest)
    if !hash.isBelow(P256.order) { hash = hash.subtracting(P256.order).0 }
    let inverse = n.invert(n.enter(s))
    let first = n.leave(n.multiply(n.enter(hash), inverse))
    let second = n.leave(n.multiply(n.enter(r), inverse))
    let point = P256.sum(first, P256.generator, second, key)
    guard !point.z.isZero else { return false }
    let f = P256.field
    let scale = f.invert(point.z)
    let x = f.leave(f.multiply(point.x, f.multiply(scale, scale)))
    return (x.isBelow(P256.order) ? x : x.subtracting(P256.order).0) == r
  }

  /// u P + v Q, bit by bit over both at once (Straus).
  private static func sum(_ u: Words256, _ p: Point, _ v: Words256, _ q: Point) -> Point {
    let both = add(p, q)
    var found = Point(x: field.one, y: field.one, z: Words256())
    for place in stride(from: 255, through: 0, by: -1) {
      found = double(found)
      switch (u.bit(place), v.bit(place)) {
      case (true, true): found = add(found, both)
      case (true, false): found = add(found, p)
      case (false, true): found = add(found, q)
      case (false, false): break
      }
    }
    return found
  }

  /// Bernstein and Lange's "dbl-2001-b" for a = -3.
  private static func double(_ p: Point) -> Point {
    let f = field
    let (delta, gamma) = (f.multiply(p.z, p.z), f.multiply(p.y, p.y))
    let beta = f.multiply(p.x, gamma)
    let slope = f.multiply(f.subtract(p.x, delta), f.add(p.x, delta))
    let alpha = f.add(f.add(slope, slope), slope)
    let four = f.add(f.add(beta, beta), f.add(beta, beta))
    let x = f.subtract(f.multiply(alpha, alpha), f.add(four, four))
    let sum = f.add(p.y, p.z)
    let z = f.subtract(f.subtract(f.multiply(sum, sum), gamma), delta)
    let square = f.multiply(gamma, gamma)
    let eight = f.add(f.add(f.add(square, square), f.add(square, square)), f.add(f.add(square, square), f.add(square, square)))
    return Point(x: x, y: f.subtract(f.multiply(alpha, f.subtract(four, x)), eight), z: z)
  }

  /// The sum of any two points, equal and opposite ones among them.
  private static func add(_ p: Point, _ q: Point) -> Point {
    if p.z.isZero { return q }
    if q.z.isZero { return p }
    let f = field
    let (pz, qz) = (f.multiply(p.z, p.z), f.multiply(q.z, q.z))
    let (u1, u2) = (f.multiply(p.x, qz), f.multiply(q.x, pz))
    let (s1, s2) = (f.multiply(p.y, f.multiply(q.z, qz)), f.multiply(q.y, f.multiply(p.z, pz)))
    let (h, r) = (f.subtract(u2, u1), f.subtract(s2, s1))
    if h.isZero { return r.isZero ? double(p) : Point(x: f.one, y: f.one, z: Words256()) }
    let square = f.multiply(h, h)
    let (cube, v) = (f.multiply(h, square), f.multiply(u1, square))
    let x = f.subtract(f.subtract(f.multiply(r, r), cube), f.add(v, v))
    let y = f.subtract(f.multiply(r, f.subtract(v, x)), f.multiply(s1, cube))
    return Point(x: x, y: y, z: f.multiply(f.multiply(p.z, q.z), h))
  }
}
