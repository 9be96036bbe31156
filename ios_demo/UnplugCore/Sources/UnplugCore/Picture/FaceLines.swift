/// Which colours a plugin was trained on; as unplug.plugins.conditions.face_landmark.
public enum FaceStyle: String, Sendable {
  /// Each part has a colour of its own.
  case unplug
  /// As MediaPipe's Image Generator draws: oval and lips white, the left eye, brow and iris green, the right ones blue.
  case mediapipe

  /// The colours of oval, lips, left eye, brow and iris, right eye, brow and iris; left and right are the person's own.
  var colours: [SIMD3<UInt8>] {
    let (white, green, blue) = (SIMD3<UInt8>(255, 255, 255), SIMD3<UInt8>(0, 255, 0), SIMD3<UInt8>(0, 0, 255))
    switch self {
    case .unplug:
      return [
        white, SIMD3(255, 64, 64), green, SIMD3(255, 255, 0), SIMD3(255, 128, 0), SIMD3(0, 128, 255), SIMD3(255, 0, 255),
        SIMD3(0, 255, 255),
      ]
    case .mediapipe: return [white, white, green, green, green, blue, blue, blue]
    }
  }

  /// The Image Generator rounds a coordinate; ours is the pixel that a point lies in.
  var nearest: Bool { self == .mediapipe }
}

/// MediaPipe's 478 points of a face, for apps that have its landmarker.
public enum FaceMesh {
  public static let points = 478

  /// Chains of points in drawing order, by the groups of `FaceStyle.colours`.
  private static let chains: [[String]] = [
    [
      "10 338 297 332 284 251 389 356 454 323 361 288 397 365 379 378 400 377 152 148 176 149 150 136 172 58 132 93 234 127 162 21 54 103"
        + " 67 109 10"
    ],
    [
      "61 146 91 181 84 17 314 405 321 375 291", "61 185 40 39 37 0 267 269 270 409 291", "78 95 88 178 87 14 317 402 318 324 308",
      "78 191 80 81 82 13 312 311 310 415 308",
    ],
    ["263 249 390 373 374 380 381 382 362", "263 466 388 387 386 385 384 398 362"],
    ["276 283 282 295 285", "300 293 334 296 336"],
    ["474 475 476 477 474"],
    ["33 7 163 144 145 153 154 155 133", "33 246 161 160 159 158 157 173 133"],
    ["46 53 52 65 55", "70 63 105 66 107"],
    ["469 470 471 472 469"],
  ]

  /// The connections that are drawn, in drawing order.
  public static func lines(_ style: FaceStyle) -> [Figure.Line] {
    zip(chains, style.colours).flatMap { group, colour in
      group.flatMap { chain -> [Figure.Line] in
        let own = chain.split(separator: " ").map { Int($0)! }
        return zip(own, own.dropFirst()).map { Figure.Line(start: $0, end: $1, colour: colour) }
      }
    }
  }

  /// A face in the centre square of its photograph, byte for byte as `unplug condition` draws it.
  ///
  /// - Parameter face: x and y of each of the 478 points, in pixels of the photograph.
  public static func draw(_ face: [SIMD2<Double>], in photograph: Picture, size: Int, style: FaceStyle = .unplug) throws -> Picture {
    guard face.count == points else { throw Failure("The face", "\(face.count) points are not a face", "Give \(points)") }
    return try drawn(Figure(points: face, lines: lines(style)), photograph, size, style)
  }
}

/// A face as Apple's Vision outlines it, in pixels of the photograph, the left edge of the first one being 0.
///
/// These are not the points that plugins were trained on: the contour is the jaw alone, and an iris is drawn around its pupil.
public struct FaceOutline: Equatable, Sendable {
  public var contour: [SIMD2<Double>] = []
  public var outerLips: [SIMD2<Double>] = []
  public var innerLips: [SIMD2<Double>] = []
  /// The points of both sides in either order: their places tell which is which.
  public var eyes: [[SIMD2<Double>]] = []
  public var brows: [[SIMD2<Double>]] = []
  public var pupils: [SIMD2<Double>] = []

  public init() {}

  /// The radius of an iris, as a fraction of its eye's width.
  private static let iris = 0.2

  /// Chains of points by the groups of `FaceStyle.colours`.
  private var chains: [[[SIMD2<Double>]]] {
    func middle(_ points: [SIMD2<Double>]) -> Double { points.map(\.x).reduce(0, +) / Double(max(1, points.count)) }
    func closed(_ points: [SIMD2<Double>]) -> [SIMD2<Double>] { points + points.prefix(1) }
    // The person's own left is on the right of the picture.
    func side(_ chains: [[SIMD2<Double>]], _ left: Bool) -> [SIMD2<Double>] {
      let sorted = chains.sorted { middle($0) < middle($1) }
      return (left ? sorted.last : sorted.count > 1 ? sorted.first : nil) ?? []
    }
    let rings = pupils.map { pupil -> [SIMD2<Double>] in
      let near = eyes.min { abs(middle($0) - pupil.x) < abs(middle($1) - pupil.x) } ?? []
      let radius = FaceOutline.iris * ((near.map(\.x).max() ?? 0) - (near.map(\.x).min() ?? 0))
      return closed([SIMD2(1.0, 0), SIMD2(0, -1), SIMD2(-1, 0), SIMD2(0, 1)].map { pupil + radius * $0 })
    }
    return [
      [contour], [closed(outerLips), closed(innerLips)], [closed(side(eyes, true))], [side(brows, true)], [side(rings, true)],
      [closed(side(eyes, false))], [side(brows, false)], [side(rings, false)],
    ]
  }

  /// In the centre square of its photograph, in the colours of a style.
  ///
  /// - Throws: `Failure` where nothing of it lies inside.
  public func draw(in photograph: Picture, size: Int, style: FaceStyle = .unplug) throws -> Picture {
    var (points, lines): ([SIMD2<Double>], [Figure.Line]) = ([], [])
    for (group, colour) in zip(chains, style.colours) {
      for chain in group {
        for place in chain.indices.dropLast() {
          let start = points.count + place
          lines.append(Figure.Line(start: start, end: start + 1, colour: colour))
        }
        points += chain
      }
    }
    return try drawn(Figure(points: points, lines: lines), photograph, size, style)
  }
}

private func drawn(_ figure: Figure, _ photograph: Picture, _ size: Int, _ style: FaceStyle) throws -> Picture {
  let found = LineDrawing.draw([figure], photograph.squareWindow, width: size, height: size, nearest: style.nearest)
  guard !found.isEmpty else {
    throw Failure("The photograph", "nothing of the face lies in its centre square", "Take one with the face in the middle")
  }
  return found
}
