/// Edges as OpenCV's Canny detector draws them (aperture 3, |gx| + |gy|), pixel by pixel.
///
/// Reference: Canny, "A Computational Approach to Edge Detection", IEEE TPAMI 8(6), 1986, in OpenCV's fixed-point form.
public enum Canny {
  public static let low = 100
  public static let high = 200
  /// tan 22.5 degrees with 15 binary places.
  private static let tangent = 13573

  /// Luminance with OpenCV's weights, of 15 binary places.
  public static func grey(_ picture: Picture) -> [UInt8] {
    var found = [UInt8](repeating: 0, count: picture.width * picture.height)
    for place in found.indices {
      let red = 9798 * Int(picture.rgb[3 * place])
      let green = 19235 * Int(picture.rgb[3 * place + 1])
      let blue = 3735 * Int(picture.rgb[3 * place + 2])
      found[place] = UInt8((red + green + blue + 16384) >> 15)
    }
    return found
  }

  /// White edges on black, as a plugin takes them.
  public static func edges(_ picture: Picture, low: Int = low, high: Int = high) -> Picture {
    let found = edges(grey(picture), picture.width, picture.height, low: low, high: high)
    return Picture(width: picture.width, height: picture.height, rgb: found.flatMap { [$0, $0, $0] })
  }

  /// 255 on edges and 0 elsewhere: ridges above `high`, and those above `low` that are connected to one.
  static func edges(_ image: [UInt8], _ width: Int, _ height: Int, low: Int, high: Int) -> [UInt8] {
    let (dx, dy, size) = gradient(image, width, height)
    let stride = width + 2
    var weak = [Bool](repeating: false, count: size.count)
    var found = [UInt8](repeating: 0, count: width * height)
    var strong: [Int] = []
    for y in 0..<height {
      for x in 0..<width {
        let at = (y + 1) * stride + x + 1
        guard size[at] > low, isRidge(size, at, stride, dx[y * width + x], dy[y * width + x]) else { continue }
        if size[at] > high { strong.append(at) } else { weak[at] = true }
      }
    }
    while let at = strong.popLast() {
      found[(at / stride - 1) * width + at % stride - 1] = 255
      for near in [-stride - 1, -stride, -stride + 1, -1, 1, stride - 1, stride, stride + 1] where weak[at + near] {
        weak[at + near] = false
        strong.append(at + near)
      }
    }
    return found
  }

  /// Sobel's 3x3 gradients, whose border repeats; their size has a border of one zero on every side.
  private static func gradient(_ image: [UInt8], _ width: Int, _ height: Int) -> (dx: [Int], dy: [Int], size: [Int]) {
    var (dx, dy) = ([Int](repeating: 0, count: width * height), [Int](repeating: 0, count: width * height))
    var size = [Int](repeating: 0, count: (width + 2) * (height + 2))
    for y in 0..<height {
      let (up, own, down) = (max(y - 1, 0) * width, y * width, min(y + 1, height - 1) * width)
      for x in 0..<width {
        let (left, right) = (max(x - 1, 0), min(x + 1, width - 1))
        func at(_ row: Int, _ column: Int) -> Int { Int(image[row + column]) }
        let (rising, falling): (Int, Int) = (at(down, right) - at(up, left), at(down, left) - at(up, right))
        let across: Int = at(own, right) - at(own, left)
        let along: Int = at(down, x) - at(up, x)
        dx[own + x] = rising - falling + 2 * across
        dy[own + x] = rising + falling + 2 * along
        size[(y + 1) * (width + 2) + x + 1] = abs(dx[own + x]) + abs(dy[own + x])
      }
    }
    return (dx, dy, size)
  }

  /// Whether a gradient is the largest across its edge; ties go to one side, as in OpenCV.
  private static func isRidge(_ size: [Int], _ at: Int, _ stride: Int, _ dx: Int, _ dy: Int) -> Bool {
    let own = size[at]
    let (x, y) = (abs(dx), abs(dy) << 15)
    let flat = x * tangent
    if y < flat { return own > size[at - 1] && own >= size[at + 1] }
    if y > flat + x << 16 { return own > size[at - stride] && own >= size[at + stride] }
    let slant = dx ^ dy < 0 ? -1 : 1
    return own > size[at - stride - slant] && own > size[at + stride + slant]
  }
}
