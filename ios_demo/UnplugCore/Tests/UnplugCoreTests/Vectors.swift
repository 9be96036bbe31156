import Foundation
import XCTest

@testable import UnplugCore

/// The folder tests/vectors that all languages share; UNPLUG_VECTORS names another place for it.
let vectors: URL = {
  if let named = ProcessInfo.processInfo.environment["UNPLUG_VECTORS"] { return URL(fileURLWithPath: named) }
  let root = (0..<5).reduce(URL(fileURLWithPath: #filePath)) { url, _ in url.deletingLastPathComponent() }
  return root.appendingPathComponent("tests/vectors")
}()

func vector(_ path: String) throws -> Data { try Data(contentsOf: vectors.appendingPathComponent(path)) }

func vectorJson(_ path: String) throws -> Json { try looseJson(vector(path)) }

extension Json {
  /// For tests: a field that is there.
  func at(_ key: ExactText, file: StaticString = #filePath, line: UInt = #line) throws -> Json {
    try XCTUnwrap(self[key], "no \(key)", file: file, line: line)
  }

  func items(_ key: ExactText) throws -> [Json] { try XCTUnwrap(self[key]?.list, "no list \(key)") }
  func doubles(_ key: ExactText) throws -> [Double] { try items(key).map { try XCTUnwrap($0.double) } }
  func floats(_ key: ExactText) throws -> [Float] { try doubles(key).map(Float.init) }
  func ints(_ key: ExactText) throws -> [Int] { try items(key).map { try XCTUnwrap($0.int) } }
  func number(_ key: ExactText) throws -> Double { try XCTUnwrap(self[key]?.double, "no number \(key)") }
  func whole(_ key: ExactText) throws -> Int { try XCTUnwrap(self[key]?.int, "no whole number \(key)") }
  func words(_ key: ExactText) throws -> String { try XCTUnwrap(self[key]?.string, "no text \(key)") }
  func data(_ key: ExactText) throws -> [UInt8] { try XCTUnwrap(strictBase64(Array(words(key).utf8))) }
}

/// Fails where a number is farther from its reference than the larger of both tolerances allows.
func assertNear<T: BinaryFloatingPoint>(
  _ got: [T], _ wanted: [Double], relative: Double = 0, absolute: Double = 0, _ what: String, file: StaticString = #filePath,
  line: UInt = #line
) {
  XCTAssertEqual(got.count, wanted.count, what, file: file, line: line)
  for (place, (one, other)) in zip(got, wanted).enumerated() {
    let apart = abs(Double(one) - other)
    if !(apart <= max(absolute, relative * abs(other))) {
      return XCTFail("\(what)[\(place)]: \(one) is not \(other)", file: file, line: line)
    }
  }
}
