import Foundation
import XCTest

@testable import UnplugCore

final class HeadTests: XCTestCase {
  func testTheRunOfASmallHead() throws {
    let said = try vectorJson("head/steps.json")
    let tolerance = try said.number("tolerance")
    var head = try DeviceHead(vector("head/start.safetensors"))
    for step in try said.items("steps") {
      let (name, age, features) = (try step.words("name"), try step.number("age"), try step.doubles("features"))
      XCTAssertEqual(hex(try head.commitment(name, features, age: age)), try step.words("commitment"))
      head = try step.words("do") == "add" ? head.adding(name, features, age: age) : head.removing(name, features, age: age)
    }
    // Byte for byte in the tensors, whose digest both files carry.
    let end = try DeviceHead(vector("head/end.safetensors"))
    XCTAssertEqual(head.digest, end.digest)
    XCTAssertEqual(try DeviceHead(head.data()).digest, end.digest)
    XCTAssertEqual(try Safetensors(head.data()).tensors, try Safetensors(vector("head/end.safetensors")).tensors)

    let (weight, bias) = try head.weights()
    for (row, wanted) in zip(weight, try said.items("weights")) {
      let numbers = try XCTUnwrap(wanted.list).map { try XCTUnwrap($0.double) }
      assertNear(row, numbers, absolute: tolerance * numbers.map(abs).max()!, "weights")
    }
    let biases = try said.doubles("bias")
    assertNear(bias, biases, absolute: tolerance * biases.map(abs).max()!, "bias")
    let (logits, ages) = (try said.items("age_logits"), try said.items("expected_age"))
    for (place, asked) in try said.items("asked").enumerated() {
      let answer = try head.answer(XCTUnwrap(asked.list).map { try XCTUnwrap($0.double) })
      let wanted = try XCTUnwrap(logits[place].list).map { try XCTUnwrap($0.double) }
      assertNear(answer.logits, wanted, absolute: tolerance * wanted.map(abs).max()!, "logits")
      let years = try XCTUnwrap(ages[place].list?.first?.double)
      assertNear([answer.years], [years], relative: tolerance, "age")
    }
  }

  func testWhatIsRefused() throws {
    let raw = try vector("head/start.safetensors")
    let head = try DeviceHead(raw)
    let features = [Double](repeating: 0.5, count: 6)
    XCTAssertThrowsError(try head.removing("nobody", features, age: 30))
    XCTAssertThrowsError(try head.adding("me", [1], age: 30))
    XCTAssertThrowsError(try head.adding("me", [.nan] + features.dropFirst(), age: 30))
    XCTAssertThrowsError(try head.adding("me", features, age: 128))
    let mine = try head.adding("me", features, age: 30)
    XCTAssertThrowsError(try mine.adding("me", features, age: 30))
    XCTAssertThrowsError(try mine.removing("me", features, age: 31))
    XCTAssertEqual(try mine.removing("me", features, age: 30).digest, head.digest)
    for place in stride(from: 0, to: raw.count, by: 7) {
      var edited = raw
      edited[place] ^= 1
      // A changed byte of the text may be a changed digit of an age group's name, say; of the numbers, never.
      if place >= raw.count - 1200 { XCTAssertThrowsError(try DeviceHead(edited), "\(place)") } else { _ = try? DeviceHead(edited) }
    }
    for end in stride(from: 0, to: raw.count, by: 97) { XCTAssertThrowsError(try DeviceHead(raw.prefix(end))) }
  }
}
