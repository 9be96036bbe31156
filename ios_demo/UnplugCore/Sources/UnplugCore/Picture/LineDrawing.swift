/// Landmarks and what is drawn between them.
public struct Figure: Sendable {
  public struct Line: Sendable {
    public let start: Int
    public let end: Int
    public let colour: SIMD3<UInt8>

    public init(start: Int, end: Int, colour: SIMD3<UInt8>) { (self.start, self.end, self.colour) = (start, end, colour) }
  }

  /// x and y in pixels of the picture; the left edge of the first pixel is 0.
  public let points: [SIMD2<Double>]
  /// A line with an invisible end is left out.
  public let visible: [Bool]
  /// The points in drawing order.
  public let lines: [Line]

  public init(points: [SIMD2<Double>], visible: [Bool]? = nil, lines: [Line]) {
    self.points = points
    self.visible = visible ?? points.map { _ in true }
    self.lines = lines
  }
}

/// Line drawings of landmarks, byte for byte as unplug.plugins.conditions.lines makes them: drawn on a canvas of 512 pixels or
/// more, as much thicker, and shrunk by area.
public enum LineDrawing {
  private static let canvas = 512
  /// Pixels of the canvas; a line with an end farther outside is left out, a nearer one is cut at the edge.
  private static let reach = 512

  /// Figures within a window of their picture, on black.
  ///
  /// - Parameter nearest: the pixel of a coordinate is round(x), not the one that the point lies in.
  public static func draw(_ figures: [Figure], _ window: Window, width: Int, height: Int, nearest: Bool = false) -> Picture {
    let factor = max(1, (canvas + max(width, height) - 1) / max(width, height))
    let (wide, high) = (width * factor, height * factor)
    let scale = SIMD2(Double(wide) / window.width, Double(high) / window.height)
    let placed = figures.map { figure in
      figure.points.map { point -> Canvas.Place in
        let moved = (point - SIMD2(window.left, window.top)) * scale
        let far = SIMD2(repeating: 1e8)
        let pixel = moved.rounded(nearest ? .toNearestOrEven : .down).clamped(lowerBound: -far, upperBound: far)
        return Canvas.Place(x: Int(pixel.x), y: Int(pixel.y))
      }
    }
    let margin = self.margin(figures, placed, wide, high)
    var larger = Canvas(width: wide + 2 * margin, height: high + 2 * margin)
    for (figure, places) in zip(figures, placed) {
      for line in figure.lines where figure.visible[line.start] && figure.visible[line.end] {
        let ends = [places[line.start], places[line.end]].map { Canvas.Place(x: $0.x + margin, y: $0.y + margin) }
        let inside = ends.allSatisfy { $0.x >= 0 && $0.y >= 0 && $0.x < wide + 2 * margin && $0.y < high + 2 * margin }
        if inside { larger.line(ends[0], ends[1], line.colour, thickness: factor) }
      }
    }
    let cut = larger.picture.cropped(left: margin, top: margin, right: margin + wide, bottom: margin + high)!
    return factor == 1 ? cut : shrunk(cut, factor)
  }

  private static func margin(_ figures: [Figure], _ placed: [[Canvas.Place]], _ width: Int, _ height: Int) -> Int {
    var outside = 0
    for (figure, places) in zip(figures, placed) {
      for (place, seen) in zip(places, figure.visible) where seen {
        outside = max(outside, -place.x, -place.y, place.x - width + 1, place.y - height + 1)
      }
    }
    return min(reach, outside)
  }

  /// Each pixel the mean of a square of `factor` pixels, as OpenCV's INTER_AREA rounds it.
  private static func shrunk(_ picture: Picture, _ factor: Int) -> Picture {
    let (width, height) = (picture.width / factor, picture.height / factor)
    var found = [UInt8](repeating: 0, count: 3 * width * height)
    let share = 1 / Float(factor * factor)
    for y in 0..<height {
      for x in 0..<width {
        for channel in 0..<3 {
          var sum = 0
          for row in y * factor..<(y + 1) * factor {
            var at = 3 * (row * picture.width + x * factor) + channel
            for _ in 0..<factor {
              sum += Int(picture.rgb[at])
              at += 3
            }
          }
          let mean = factor == 2 ? (sum + 2) >> 2 : Int((Float(sum) * share).rounded(.toNearestOrEven))
          found[3 * (y * width + x) + channel] = UInt8(min(255, mean))
        }
      }
    }
    return Picture(width: width, height: height, rgb: found)
  }
}
