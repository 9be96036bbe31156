/// A part of a picture in pixels; pixel i covers [i, i + 1).
public struct Window: Equatable, Sendable {
  public let left: Double
  public let top: Double
  public let width: Double
  public let height: Double

  public init(left: Double, top: Double, width: Double, height: Double) {
    (self.left, self.top, self.width, self.height) = (left, top, width, height)
  }
}

extension Picture {
  /// The centre square.
  public var squareWindow: Window {
    let side = Double(min(width, height))
    return Window(left: (Double(width) - side) / 2, top: (Double(height) - side) / 2, width: side, height: side)
  }

  /// A rectangle of whole pixels, cut off at the edges; nothing where none of it lies inside.
  public func cropped(left: Int, top: Int, right: Int, bottom: Int) -> Picture? {
    let (x0, y0, x1, y1) = (max(0, left), max(0, top), min(width, right), min(height, bottom))
    guard x0 < x1, y0 < y1 else { return nil }
    var rows: [UInt8] = []
    for y in y0..<y1 {
      let start = 3 * (y * width + x0)
      rows += rgb[start..<start + 3 * (x1 - x0)]
    }
    return Picture(width: x1 - x0, height: y1 - y0, rgb: rows)
  }

  /// The centre square at another size, byte for byte as unplug.sdk.learning.data shows it to networks.
  public func square(_ size: Int) -> Picture { resized(squareWindow, width: size, height: size) }

  /// A window at another size, byte for byte as Pillow 13's bilinear filter makes it: a triangle as wide as the pixels of the
  /// result, in fixed point of 22 binary places, first along rows, then along columns, 8 bits in between. Where the picture's
  /// height shrinks by more than twice as many pixels as its width, columns come first.
  func resized(_ window: Window, width outWidth: Int, height outHeight: Int) -> Picture {
    let whole = Window(left: 0, top: 0, width: Double(width), height: Double(height))
    if window == whole, outWidth == width, outHeight == height { return self }
    let across = Taps(size: width, from: window.left, to: window.left + window.width, count: outWidth)
    let down = Taps(size: height, from: window.top, to: window.top + window.height, count: outHeight)
    let (lower, narrower) = (height - outHeight, width - outWidth)
    if lower > 0, lower > 2 * narrower { return resampled(down: down).resampled(across: across) }
    return resampled(across: across).resampled(down: down)
  }

  private func resampled(across taps: Taps) -> Picture {
    let wide = taps.start.count
    var found = [UInt8](repeating: 0, count: 3 * wide * height)
    for y in 0..<height {
      for x in 0..<wide {
        let from = 3 * (y * width + taps.start[x])
        for channel in 0..<3 { found[3 * (y * wide + x) + channel] = Taps.sum(taps.weights[x], rgb, from + channel, 3) }
      }
    }
    return Picture(width: wide, height: height, rgb: found)
  }

  private func resampled(down taps: Taps) -> Picture {
    let (row, high) = (3 * width, taps.start.count)
    var found = [UInt8](repeating: 0, count: row * high)
    for y in 0..<high {
      let from = row * taps.start[y]
      for place in 0..<row { found[row * y + place] = Taps.sum(taps.weights[y], rgb, from + place, row) }
    }
    return Picture(width: width, height: high, rgb: found)
  }
}

/// Which pixels of a line make each of the result, and with what weights of 22 binary places.
private struct Taps {
  private static let places = 22
  let start: [Int]
  let weights: [[Int]]

  init(size: Int, from: Double, to: Double, count: Int) {
    // Pillow keeps the window's ends as float32.
    let (low, high) = (Float(from), Float(to))
    let scale = Double(high - low) / Double(count)
    let support = max(scale, 1)
    var (start, weights) = ([Int](), [[Int]]())
    for place in 0..<count {
      let centre = Double(low) + (Double(place) + 0.5) * scale
      let first = max(0, Int(centre - support + 0.5))
      let last = min(size, Int(centre + support + 0.5))
      let raw = (first..<last).map { (tap: Int) -> Double in
        max(0, 1 - abs((Double(tap) - centre + 0.5) * (1 / support)))
      }
      let sum = raw.reduce(0, +)
      start.append(first)
      weights.append(raw.map { (weight: Double) -> Int in Int(0.5 + weight / (sum == 0 ? 1 : sum) * Double(1 << Taps.places)) })
    }
    (self.start, self.weights) = (start, weights)
  }

  /// A weighted sum of every `stride`-th byte from a place on.
  static func sum(_ weights: [Int], _ bytes: [UInt8], _ from: Int, _ stride: Int) -> UInt8 {
    var (total, at) = (1 << (places - 1), from)
    for weight in weights {
      total += weight * Int(bytes[at])
      at += stride
    }
    return UInt8(min(255, max(0, total >> places)))
  }
}
