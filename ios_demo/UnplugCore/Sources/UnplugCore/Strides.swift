/// Visits the places of an array with strides, row by row.
///
/// - Parameter visit: takes the number of an element, and where it lies.
public func forEachPlace(_ shape: [Int], _ strides: [Int], _ visit: (Int, Int) -> Void) {
  let count = shape.reduce(1, *)
  var (index, place) = ([Int](repeating: 0, count: shape.count), 0)
  for number in 0..<count {
    visit(number, place)
    for axis in shape.indices.reversed() {
      index[axis] += 1
      place += strides[axis]
      if index[axis] < shape[axis] { break }
      place -= strides[axis] * shape[axis]
      index[axis] = 0
    }
  }
}

/// A number of 16 bits (IEEE 754 binary16) as float32; Intel Macs have no type of it.
public func float(half bits: UInt16) -> Float {
  let (sign, exponent, fraction) = (UInt32(bits >> 15) << 31, UInt32(bits >> 10 & 31), UInt32(bits & 1023))
  switch exponent {
  case 0: return (sign == 0 ? 1 : -1) * Float(fraction) * 0x1p-24
  case 31: return Float(bitPattern: sign | 0x7f80_0000 | fraction << 13)
  default: return Float(bitPattern: sign | (exponent + 112) << 23 | fraction << 13)
  }
}
