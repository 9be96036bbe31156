/// A black picture that lines are drawn on, pixel by pixel as OpenCV's `line` draws them without antialiasing.
///
/// A line of one pixel is Bresenham's; a thicker one is a rectangle with a disc at each end. Coordinates of the rectangle have 16
/// binary places.
struct Canvas {
  private(set) var picture: Picture
  private static let one = 1 << 16
  private static let half = 1 << 15

  init(width: Int, height: Int) {
    picture = Picture(width: width, height: height, rgb: [UInt8](repeating: 0, count: 3 * width * height))
  }

  typealias Colour = SIMD3<UInt8>

  struct Place: Equatable {
    var x: Int
    var y: Int
  }

  private mutating func put(_ x: Int, _ y: Int, _ colour: Colour) {
    guard x >= 0, x < picture.width, y >= 0, y < picture.height else { return }
    let at = 3 * (y * picture.width + x)
    for channel in 0..<3 { picture.rgb[at + channel] = colour[channel] }
  }

  private mutating func row(_ y: Int, _ left: Int, _ right: Int, _ colour: Colour) {
    let (low, high) = (max(0, left), min(picture.width - 1, right))
    if y >= 0, y < picture.height, low <= high { for x in low...high { put(x, y, colour) } }
  }

  mutating func line(_ from: Place, _ to: Place, _ colour: Colour, thickness: Int) {
    guard thickness > 1 else { return thin(from, to, colour) }
    let (a, b) = (Place(x: from.x << 16, y: from.y << 16), Place(x: to.x << 16, y: to.y << 16))
    let (dx, dy) = (Double(from.x - to.x), Double(to.y - from.y))
    if dx != 0 || dy != 0 {
      let odd = Double(thickness & 1) * Double(Canvas.one) * 0.5
      let reach = (Double(thickness << 15) + odd) / (dx * dx + dy * dy).squareRoot()
      let (x, y) = (nearestEven(dy * reach), nearestEven(dx * reach))
      let corners = [(a, 1), (a, -1), (b, -1), (b, 1)].map { Place(x: $0.0.x + $0.1 * x, y: $0.0.y + $0.1 * y) }
      fill(corners, colour)
    }
    let radius = (thickness << 15 + Canvas.half) >> 16
    for end in [from, to] { disc(end, radius, colour) }
  }

  /// Bresenham from left to right.
  private mutating func thin(_ from: Place, _ to: Place, _ colour: Colour) {
    let (a, b) = to.x < from.x ? (to, from) : (from, to)
    let (width, height, down) = (b.x - a.x, abs(b.y - a.y), b.y < a.y ? -1 : 1)
    let steep = height > width
    let (long, short) = steep ? (height, width) : (width, height)
    var (at, error) = (a, long - 2 * short)
    for _ in 0...long {
      put(at.x, at.y, colour)
      let both = error < 0
      error += (both ? 2 * long : 0) - 2 * short
      if both || !steep { at.x += 1 }
      if both || steep { at.y += down }
    }
  }

  private mutating func disc(_ centre: Place, _ radius: Int, _ colour: Colour) {
    var (error, dx, dy, plus, minus) = (0, radius, 0, 1, 2 * radius - 1)
    while dx >= dy {
      for side in [-dy, dy] { row(centre.y + side, centre.x - dx, centre.x + dx, colour) }
      for side in [-dx, dx] { row(centre.y + side, centre.x - dy, centre.x + dy, colour) }
      dy += 1
      error += plus
      plus += 2
      if error > 0 {
        error -= minus
        dx -= 1
        minus -= 2
      }
    }
  }

  /// One side of a polygon on its way down.
  private struct Edge {
    var index: Int
    let turn: Int
    var x = -Canvas.one
    var slope = 0
    var end: Int
  }

  /// A convex polygon: its outline, and row by row what lies between its sides.
  private mutating func fill(_ corners: [Place], _ colour: Colour) {
    for (one, other) in zip([corners.last!] + corners, corners) { outline(one, other, colour) }
    func rounded(_ value: Int) -> Int { (value + Canvas.half) >> 16 }
    let top = corners.indices.min { (corners[$0].y, $0) < (corners[$1].y, $1) }!
    let bottom = min(rounded(corners.map(\.y).max()!), picture.height - 1)
    var y = rounded(corners[top].y)
    var sides = [Edge(index: top, turn: 1, end: y), Edge(index: top, turn: corners.count - 1, end: y)]
    var left = corners.count
    guard rounded(corners.map(\.x).max()!) >= 0, rounded(corners.map(\.x).min()!) < picture.width, bottom >= 0, y < picture.height else {
      return
    }
    repeat {
      for place in sides.indices where y >= sides[place].end { next(&sides[place], corners, y, &left) }
      if left < 0 { break }
      let (low, high) = (min(sides[0].x, sides[1].x), max(sides[0].x, sides[1].x))
      row(y, rounded(low), rounded(high), colour)
      for place in sides.indices { sides[place].x += sides[place].slope }
      y += 1
    } while y <= bottom
  }

  /// Goes on to the next corner that lies below a row; `left` is how many corners were not looked at yet, -1 after the last.
  private func next(_ side: inout Edge, _ corners: [Place], _ y: Int, _ left: inout Int) {
    var (from, to) = (side.index, (side.index + side.turn) % corners.count)
    while true {
      left -= 1
      if left < 0 { return }
      let end = (corners[to].y + Canvas.half) >> 16
      if end > y {
        side.end = end
        side.slope = ((corners[to].x - corners[from].x) * 2 + (end - y)) / (2 * (end - y))
        (side.x, side.index) = (corners[from].x, to)
        return
      }
      (from, to) = (to, (to + side.turn) % corners.count)
    }
  }

  /// A line between places of 16 binary places, along its longer direction.
  private mutating func outline(_ from: Place, _ to: Place, _ colour: Colour) {
    guard var (a, b) = clipped(from, to) else { return }
    let flat = abs(b.x - a.x) > abs(b.y - a.y)
    if flat ? b.x < a.x : b.y < a.y { (a, b) = (b, a) }
    let long = flat ? b.x - a.x : b.y - a.y
    let slope = ((flat ? b.y - a.y : b.x - a.x) << 16) / (long | 1)
    put((b.x + Canvas.half) >> 16, (b.y + Canvas.half) >> 16, colour)
    var (main, other) = flat ? ((a.x + Canvas.half) >> 16, a.y + Canvas.half) : ((a.y + Canvas.half) >> 16, a.x + Canvas.half)
    for _ in 0...(long >> 16) {
      if flat { put(main, other >> 16, colour) } else { put(other >> 16, main, colour) }
      main += 1
      other += slope
    }
  }

  /// A line's part inside the canvas (Cohen and Sutherland), or nothing.
  private func clipped(_ from: Place, _ to: Place) -> (Place, Place)? {
    let (right, bottom) = (picture.width << 16 - 1, picture.height << 16 - 1)
    var (a, b) = (from, to)
    func beside(_ p: Place) -> Int { p.x < 0 ? -1 : p.x > right ? 1 : 0 }
    func beyond(_ p: Place) -> Int { p.y < 0 ? -1 : p.y > bottom ? 1 : 0 }
    func out() -> Bool { beside(a) * beside(b) > 0 || beyond(a) * beyond(b) > 0 }
    if out() { return nil }
    func cutAcross(_ p: inout Place, _ side: Int) {
      let line = side < 0 ? 0 : bottom
      p.x += Int(Double(line - p.y) * Double(b.x - a.x) / Double(b.y - a.y))
      p.y = line
    }
    var (one, other) = (a, b)
    if beyond(one) != 0 {
      cutAcross(&one, beyond(one))
      a = one
    }
    if beyond(other) != 0 {
      cutAcross(&other, beyond(other))
      b = other
    }
    if beside(a) * beside(b) > 0 { return nil }
    func cutDown(_ p: inout Place, _ side: Int) {
      let line = side < 0 ? 0 : right
      p.y += Int(Double(line - p.x) * Double(b.y - a.y) / Double(b.x - a.x))
      p.x = line
    }
    (one, other) = (a, b)
    if beside(one) != 0 {
      cutDown(&one, beside(one))
      a = one
    }
    if beside(other) != 0 {
      cutDown(&other, beside(other))
      b = other
    }
    return (a, b)
  }
}
