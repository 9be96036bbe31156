import Foundation
import XCTest

@testable import UnplugCore

/// Faces put in their frame as in Python: tests/vectors/faces.
final class AlignmentTests: XCTestCase {
  private func picture(_ item: Json, _ key: ExactText, _ width: Int, _ height: Int) throws -> Picture {
    let packed = try item.data(key)
    return Picture(width: width, height: height, rgb: try Inflate.unpack(packed[...], size: 3 * width * height))
  }

  private func point(_ json: Json?) throws -> SIMD2<Double> {
    let numbers = try XCTUnwrap(json?.list)
    return SIMD2(try XCTUnwrap(numbers[0].double), try XCTUnwrap(numbers[1].double))
  }

  private func frame(_ said: Json) throws -> Frame {
    try Frame(
      left: try point(said["left"]), right: try point(said["right"]), leastEyes: try XCTUnwrap(said["least_eyes"]?.double),
      leastLight: try XCTUnwrap(said["least_light"]?.double))
  }

  func testFacesArePutInTheirFrame() throws {
    let cases = try vectorJson("faces/faces.json").items("align")
    for item in cases {
      let frame = try frame(try item.at("frame"))
      let (width, height, size) = (try item.whole("width"), try item.whole("height"), try item.whole("size"))
      let shown = try picture(item, "rgb", width, height)
      let found = try shown.aligned(left: try point(item["left"]), right: try point(item["right"]), size: size, frame: frame)
      XCTAssertEqual(found, try picture(item, "aligned", size, size), "\(width) x \(height) to \(size)")
      XCTAssertEqual(found.light, try XCTUnwrap(item["light"]?.double))
    }
    XCTAssertEqual(cases.count, 8)
  }

  func testWhatIsTooLittleToJudgeIsTold() throws {
    let cases = try vectorJson("faces/faces.json").items("problems")
    for item in cases {
      let colour = UInt8(try item.whole("colour"))
      let shown = Picture(width: 4, height: 4, rgb: [UInt8](repeating: colour, count: 48))
      let apart = try XCTUnwrap(item["apart"]?.double)
      let told = Face.problem(
        faces: try item.whole("faces"), left: SIMD2(10, 10), right: SIMD2(10 + apart, 10), aligned: shown, frame: try Frame())
      XCTAssertEqual(told, item["problem"]?.string)
    }
    XCTAssertEqual(cases.count, 9)
  }

  func testFramesOfManifests() throws {
    let cases = try vectorJson("faces/faces.json").items("manifests")
    for item in cases {
      let (what, said) = (try item.words("what"), item["preprocessing"])
      if item["refused"] == .bool(true) {
        XCTAssertThrowsError(try Frame(preprocessing: said), what)
      } else {
        let wanted = item["frame"].flatMap { $0 == .null ? nil : $0 }
        XCTAssertEqual(try Frame(preprocessing: said), try wanted.map(frame), what)
      }
    }
    XCTAssertEqual(cases.count, 18)
  }

  func testEyesOfAnOutline() throws {
    let (left, right) = ([SIMD2(10.0, 20), SIMD2(13, 18), SIMD2(16, 21), SIMD2(13, 23)], [SIMD2(30.0, 20), SIMD2(33, 18), SIMD2(36, 21)])
    for outlines in [[left, right], [right, left]] {
      XCTAssertEqual(Eyes(outlines: outlines), Eyes(left: SIMD2(13, 20.5), right: SIMD2(33, 20.5)))
    }
    for none in [[], [left], [left, []]] { XCTAssertNil(Eyes(outlines: none)) }
  }

  func testEyesThatAreNone() throws {
    let shown = Picture(width: 2, height: 2, rgb: [UInt8](repeating: 0, count: 12))
    for right in [SIMD2(1.0, 1.0), SIMD2(Double.nan, 1.0)] {
      XCTAssertThrowsError(try shown.aligned(left: SIMD2(1, 1), right: right, size: 4, frame: try Frame()))
    }
    XCTAssertThrowsError(try Frame(left: SIMD2(-0.1, 0.3)))
    XCTAssertThrowsError(try Frame(left: SIMD2(0.6831, 0.3037)))
  }
}
