import Foundation
import XCTest

@testable import UnplugCore

final class PictureTests: XCTestCase {
  private func picture(_ item: Json, _ key: ExactText, _ width: Int, _ height: Int) throws -> Picture {
    let packed = try item.data(key)
    return Picture(width: width, height: height, rgb: try Inflate.unpack(packed[...], size: 3 * width * height))
  }

  func testSquaresArePillows() throws {
    let cases = try vectorJson("pictures/square.json").items("cases")
    for item in cases {
      let (width, height, size) = (try item.whole("width"), try item.whole("height"), try item.whole("size"))
      let found = try picture(item, "rgb", width, height).square(size)
      XCTAssertEqual(found, try picture(item, "square", size, size), "\(width) x \(height) to \(size)")
    }
    XCTAssertEqual(cases.count, 9)
  }

  func testLinesAreOpenCVs() throws {
    let file = try vectorJson("pictures/lines.json")
    let figures = try file.items("figures").map { item in
      let points = try item.items("points").map { SIMD2(try XCTUnwrap($0.list?[0].double), try XCTUnwrap($0.list?[1].double)) }
      let lines = try item.items("lines").map { line in
        let numbers = try XCTUnwrap(line.list).map { try XCTUnwrap($0.int) }
        return Figure.Line(start: numbers[0], end: numbers[1], colour: SIMD3(numbers[2...].map { UInt8($0) }))
      }
      return Figure(points: points, visible: try item.items("visible").map { try XCTUnwrap($0.bool) }, lines: lines)
    }
    let cases = try file.items("cases")
    for item in cases {
      let (width, height, ends) = (try item.whole("width"), try item.whole("height"), try item.doubles("window"))
      let window = Window(left: ends[0], top: ends[1], width: ends[2], height: ends[3])
      let nearest = try XCTUnwrap(item["nearest"]?.bool)
      let found = LineDrawing.draw(figures, window, width: width, height: height, nearest: nearest)
      let wanted = try picture(item, "rgb", width, height)
      let wrong = zip(found.rgb, wanted.rgb).filter { $0 != $1 }.count
      XCTAssertEqual(wrong, 0, "\(width) x \(height): \(wrong) of \(found.rgb.count) bytes differ")
      XCTAssertFalse(wanted.isEmpty)
    }
    XCTAssertEqual(cases.count, 7)
  }

  func testAFaceIsCutAsPythonCutsIt() throws {
    let picture = Picture(width: 200, height: 100, rgb: [UInt8](repeating: 1, count: 60_000))
    let box = [SIMD2(20.0, 30.0), SIMD2(70.0, 80.0), SIMD2(40.0, 50.0)]
    // 50 pixels and a hundredth on each side: 19.5 to 70.5 and 29.5 to 80.5, halves to the even neighbour.
    let cut = try XCTUnwrap(Face.square(box, in: picture))
    XCTAssertEqual([cut.width, cut.height], [50, 50])
    let edge = try XCTUnwrap(Face.square([SIMD2(-10.0, 0.0), SIMD2(30.0, 60.0)], in: picture, margin: 0))
    XCTAssertEqual([edge.width, edge.height], [40, 60])
    XCTAssertNil(Face.square([SIMD2(500.0, 500.0)], in: picture))
    XCTAssertNil(Face.square([], in: picture))
  }

  func testAnAge() throws {
    let tensor = #"{"name":"image","shape":[1,2,2,3],"dtype":"float32","layout":"NHWC","range":[-1,1],"colour":"RGB"}"#
    let outputs =
      #"[{"name":"age_logits","shape":[1,3],"dtype":"float32","layout":"NC","range":null,"colour":null},{"name":"expected_age","shape":[1,1],"dtype":"float32","layout":"NC","range":null,"colour":null}]"#
    func manifest(_ decision: String) throws -> Json {
      let post = #"{"age_edges":[0,13,14,100],"unit":"years","decision":\#(decision)}"#
      return try looseJson(
        Array(#"{"model_type":"age","iospec":{"inputs":[\#(tensor)],"outputs":\#(outputs)},"postprocessing":\#(post)}"#.utf8))
    }
    let version = #""schema":"unplug-decision/1""#
    let fitted = #"\#(version),"max_fpr":0.07,"max_fnr":0.05,"confidence":null,"models":[{"sha256":"a"}]"#
    let reader = try Predictor(manifest: manifest(#"{\#(fitted),"age":57,"over_from":0.25,"under_to":0.125}"#))
    let said: (Float) -> Tensors = { ["age_logits": .floats([0, 0, 0.6931472]), "expected_age": .floats([$0])] }
    let answer = try reader.answer(said(21.5), file: "a")
    XCTAssertEqual(answer.years, 21.5)
    XCTAssertEqual(answer.shares.map(\.name), ["0–12", "13", "14 and over"])
    assertNear(answer.shares.map(\.probability), [0.25, 0.25, 0.5], absolute: 1e-7, "groups")
    // Half of the last group, 14 to 100 years, lies above 57: P(age >= 57) is a quarter of the whole, and a sixth where it is a third.
    XCTAssertEqual(overProbability([0.25, 0.25, 0.5], [0, 13, 14, 100], 57), 0.25)
    XCTAssertEqual(overProbability([0.5, 0.5], [0, 18, 100], 18), 0.5)
    func logits(_ last: Float) -> Tensors { ["age_logits": .floats([0, 0, last]), "expected_age": .floats([30])] }
    let answers = try [5, 0, -2].map { try reader.answer(logits($0), file: "a") }
    XCTAssertEqual(answers.map(\.decision), [.over, .unsure, .under])
    XCTAssertEqual(answers.map(\.said), ["Over 57", "Unsure whether over 57", "Under 57"])
    let holds = "For people like those it was fitted on: at most 7 % of minors are called over 57, and at most 5 % of adults under 57"
    XCTAssertEqual(answers[0].held, "\(holds) (on average over samples of such people).")
    let other = try reader.answer(logits(5), file: "b")
    XCTAssertEqual([other.years, Double(other.shares.count)], [30, 3])
    XCTAssertNil(other.decision ?? other.said)
    XCTAssertEqual(other.held, "No decision: the limits in this bundle were fitted on other model files than the one used here.")
    let silent = try Predictor(manifest: manifest("null")).answer(said(30), file: "a")
    XCTAssertNil(silent.decision ?? silent.said ?? silent.held)
    for wrong in [
      #"{\#(fitted),"age":18,"over_from":0.1,"under_to":0.9}"#, #"{\#(fitted),"age":100,"over_from":0.9,"under_to":0.1}"#, "{}",
    ] {
      XCTAssertThrowsError(try Predictor(manifest: manifest(wrong)), wrong)
    }
    XCTAssertThrowsError(try reader.answer(["age_logits": .floats([0]), "expected_age": .floats([.nan])], file: "a"))
    let grey = Picture(width: 2, height: 2, rgb: [255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0])
    XCTAssertEqual(reader.tensor(grey), [1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1])
  }

  func testAxesInAnotherOrder() throws {
    let values = (0..<24).map { Float($0) }
    let turned = try relaid(values, shape: [1, 2, 3, 4], from: "NCHW", to: "NHWC")
    XCTAssertEqual(turned[..<4].map { $0 }, [0, 12, 1, 13])
    XCTAssertEqual(try relaid(turned, shape: [1, 3, 4, 2], from: "NHWC", to: "NCHW"), values)
    XCTAssertThrowsError(try relaid(values, shape: [1, 2, 3, 4], from: "NCHW", to: "NHWD"))
  }
}
