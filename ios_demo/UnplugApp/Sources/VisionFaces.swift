import CoreGraphics
import Foundation
import UnplugCore
import Vision

/// Faces by Apple's Vision: the box around each, and its outlines.
struct VisionFaces: FaceFinder {
  func faces(_ picture: Picture) async throws -> [FoundFace] {
    guard let image = picture.cgImage else { throw Failure("The photograph", "it cannot be read", "Choose another") }
    let request = VNDetectFaceLandmarksRequest()
    do { try VNImageRequestHandler(cgImage: image, options: [:]).perform([request]) } catch {
      throw Failure("The photograph", "Vision does not look at it (\(error.localizedDescription))", "Choose another")
    }
    let size = CGSize(width: picture.width, height: picture.height)
    let found: [VNFaceObservation] = request.results ?? []
    return found.map { FoundFace(points: corners($0.boundingBox, size), outline: outline($0.landmarks, size)) }
  }

  /// Vision counts from the lower left, in parts of the picture.
  private func corners(_ box: CGRect, _ size: CGSize) -> [SIMD2<Double>] {
    let (wide, high) = (Double(size.width), Double(size.height))
    let (left, right) = (wide * Double(box.minX), wide * Double(box.maxX))
    let (top, bottom) = (high * (1 - Double(box.maxY)), high * (1 - Double(box.minY)))
    return [SIMD2<Double>(left, top), SIMD2<Double>(right, bottom)]
  }

  private func outline(_ marks: VNFaceLandmarks2D?, _ size: CGSize) -> FaceOutline {
    func points(_ region: VNFaceLandmarkRegion2D?) -> [SIMD2<Double>] {
      let found: [CGPoint] = region?.pointsInImage(imageSize: size) ?? []
      return found.map { SIMD2<Double>(Double($0.x), Double(size.height) - Double($0.y)) }
    }
    var outline = FaceOutline()
    outline.contour = points(marks?.faceContour)
    outline.outerLips = points(marks?.outerLips)
    outline.innerLips = points(marks?.innerLips)
    outline.eyes = [points(marks?.leftEye), points(marks?.rightEye)].filter { !$0.isEmpty }
    outline.brows = [points(marks?.leftEyebrow), points(marks?.rightEyebrow)].filter { !$0.isEmpty }
    outline.pupils = [points(marks?.leftPupil), points(marks?.rightPupil)].compactMap(\.first)
    return outline
  }
}
