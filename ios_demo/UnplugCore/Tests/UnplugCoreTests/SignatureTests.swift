import Foundation
import XCTest

@testable import UnplugCore

/// Verdicts of Python's cryptography, for the plain Swift verifier or, on a Mac, Apple's.
final class SignatureTests: XCTestCase {
  func testDigests() throws {
    let cases = try vectorJson("signatures/sha256.json").items("cases")
    for item in cases {
      let message = Data(try item.data("message"))
      XCTAssertEqual(sha256Hex(message), try item.words("sha256"))
    }
    XCTAssertGreaterThan(cases.count, 130)
  }

  func testSignaturesOfP256() throws {
    let cases = try vectorJson("signatures/p256.json").items("cases")
    var sound = 0
    for item in cases {
      let numbers = try ["x", "y", "r", "s"].map { bytes(hex: ExactText(try item.words(ExactText($0)))) }
      let (key, signature) = (numbers[0] + numbers[1], numbers[2] + numbers[3])
      let (message, wanted) = (Data(try item.data("message")), try XCTUnwrap(item["holds"]?.bool))
      let what = try item.words("what")
      sound += wanted ? 1 : 0
      let found = p256(key: key, signature: signature, message: message)
      XCTAssertEqual(found, wanted, what)
    }
    XCTAssertGreaterThan(sound, 100)
    XCTAssertGreaterThan(cases.count - sound, 200)
  }

  func testTheSpellingOfASignature() throws {
    let item = try vectorJson("signatures/p256.json").items("cases")[0]
    let raw = try ["r", "s"].map { bytes(hex: ExactText(try item.words(ExactText($0)))) }
    func number(_ bytes: [UInt8]) -> [UInt8] {
      let short = Array(bytes.drop { $0 == 0 })
      let value = short[0] & 0x80 == 0 ? short : [0] + short
      return [2, UInt8(value.count)] + value
    }
    let inner = number(raw[0]) + number(raw[1])
    let der = [0x30, UInt8(inner.count)] + inner
    XCTAssertEqual(rawSignature(der: der), raw[0] + raw[1])
    let wrongs: [[UInt8]] = [der + [0], Array(der.dropLast()), [0x31] + Array(der.dropFirst()), [], [0x30, 0]]
    for wrong in wrongs { XCTAssertNil(rawSignature(der: wrong)) }
    for place in 0..<4 {
      var other = der
      other[place] ^= 0x80
      XCTAssertNil(rawSignature(der: other), "\(place)")
    }
  }

  func testBase64InOneSpelling() {
    for length in 0..<40 {
      let bytes = (0..<length).map { UInt8(($0 * 37) & 255) }
      let text = Data(bytes).base64EncodedString()
      XCTAssertEqual(base64(bytes), text)
      XCTAssertEqual(strictBase64(Array(text.utf8)), bytes)
    }
    for wrong in ["A", "AA", "AAA", "AB==", "AAB=", "A===", "====", "AA=A", "A-_A", "AAAA\n", "AAAA====", " AAA"] {
      XCTAssertNil(strictBase64(Array(wrong.utf8)), wrong)
    }
  }
}
