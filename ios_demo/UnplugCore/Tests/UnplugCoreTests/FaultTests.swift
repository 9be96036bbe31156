import Foundation
import XCTest

@testable import UnplugCore

/// Faults that ports are known to make, planted here: the vectors must catch each of them.
final class FaultTests: XCTestCase {
  private func squares() throws -> [(Picture, Int, Picture)] {
    try vectorJson("pictures/square.json").items("cases").map { item in
      let (width, height, size) = (try item.whole("width"), try item.whole("height"), try item.whole("size"))
      let picture = Picture(width: width, height: height, rgb: try Inflate.unpack(item.data("rgb")[...], size: 3 * width * height))
      return (picture, size, Picture(width: size, height: size, rgb: try Inflate.unpack(item.data("square")[...], size: 3 * size * size)))
    }
  }

  /// In how many cases of the squares a fault shows.
  private func caught(_ fault: (Picture, Int) -> Picture) throws -> Int {
    try squares().filter { fault($0.0, $0.1) != $0.2 }.count
  }

  func testTheOrderOfColours() throws {
    XCTAssertEqual(try caught { $0.square($1) }, 0)
    let swapped = try caught { picture, size in
      var other = picture.square(size)
      for place in stride(from: 0, to: other.rgb.count, by: 3) { other.rgb.swapAt(place, place + 2) }
      return other
    }
    XCTAssertGreaterThanOrEqual(swapped, 8)
  }

  func testACropThatIsOffByOne() throws {
    let moved = try caught { picture, size in
      let own = picture.squareWindow
      return picture.resized(Window(left: own.left + 1, top: own.top, width: own.width - 1, height: own.height), width: size, height: size)
    }
    XCTAssertGreaterThanOrEqual(moved, 7)
  }

  func testHalfAPixel() throws {
    let moved = try caught { picture, size in
      let (own, half) = (picture.squareWindow, 0.5)
      let width = min(own.width, Double(picture.width) - own.left - half)
      return picture.resized(Window(left: own.left + half, top: own.top, width: width, height: own.height), width: size, height: size)
    }
    XCTAssertGreaterThanOrEqual(moved, 7)
  }

  func testAWrongMean() throws {
    let known = try vectorJson("pipeline/pixels.json")
    let bytes = try known.ints("condition").map(UInt8.init)
    let condition = Picture(width: bytes.count, height: 1, rgb: bytes.flatMap { [$0, $0, $0] })
    let wanted = try known.doubles("range_-1_1")
    func apart(_ range: [Double]) -> Double { zip(conditionInput(condition, range: range), wanted).map { abs(Double($0) - $1) }.max()! }
    XCTAssertLessThanOrEqual(apart([-1, 1]), 1e-7)
    for wrong in [[0.0, 1.0], [-0.5, 0.5], [-0.99, 1.0]] { XCTAssertGreaterThan(apart(wrong), 1e-3) }
  }

  func testAWrongMerge() throws {
    let data = try XCTUnwrap(vectorJson("pipeline/tokenizer.json").object)
    var merges = try XCTUnwrap(data["merges"]?.list)
    let prompts = try vectorJson("pipeline/tokens.json").items("prompts")
    func wrong() throws -> Int {
      let tokenizer = try Tokenizer(.object(data.merging(["merges": .list(merges)]) { $1 }))
      return try prompts.filter { item in
        let text = String(repeating: try item.words("text"), count: item["times"]?.int ?? 1)
        return try tokenizer.encode(text).ids.map(Int.init) != item.ints("ids")
      }.count
    }
    XCTAssertEqual(try wrong(), 0)
    merges.reverse()
    XCTAssertGreaterThan(try wrong(), 0, "the least urgent merge first")
    merges.reverse()
    for pair in ["h i", "c hi", "chi ld</w>"] {
      let whole = merges
      merges.remove(at: try XCTUnwrap(merges.firstIndex(of: .text(ExactText(pair)))))
      XCTAssertGreaterThan(try wrong(), 0, "the merge \(pair) is missing")
      merges = whole
    }
  }

  func testAWrongCounter() throws {
    let item = try vectorJson("pipeline/noise.json").items("streams")[0]
    let (seed, stream) = (try XCTUnwrap(UInt64(item.words("seed"))), UInt64(try item.whole("stream")))
    let wanted = try item.ints("words").map(UInt32.init)
    let (low, high) = (UInt32(truncatingIfNeeded: seed), UInt32(truncatingIfNeeded: seed >> 32))
    func words(_ counter: (UInt32) -> SIMD4<UInt32>) -> [UInt32] {
      (0..<UInt32(wanted.count / 4)).flatMap { block -> [UInt32] in
        let found = NoiseStream.philox(counter(block), SIMD2(low, high))
        return [found[0], found[1], found[2], found[3]]
      }
    }
    let own = UInt32(truncatingIfNeeded: stream)
    XCTAssertEqual(words { SIMD4($0, 0, own, 0) }, wanted)
    XCTAssertNotEqual(words { SIMD4($0 + 1, 0, own, 0) }, wanted, "counted from one")
    XCTAssertNotEqual(words { SIMD4(0, $0, own, 0) }, wanted, "counted in the high word")
    XCTAssertNotEqual(words { SIMD4($0 / 2, 0, own, 0) }, wanted, "two blocks a number")
  }
}
