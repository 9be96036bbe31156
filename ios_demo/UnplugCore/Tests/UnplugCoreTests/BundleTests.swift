import Foundation
import XCTest

@testable import UnplugCore

final class BundleTests: XCTestCase {
  /// The verdict of one case of the corpus.
  private func verdict(_ item: Json) throws -> String {
    let trust = try Trust(json: item.at("trust"))
    let now = try XCTUnwrap(secondsSince1970(ExactText(item.words("now"))))
    do {
      var files: [ExactText: Data] = [:]
      if item["zip"] != nil {
        files = try Zip.read(Data(item.data("zip")))
      } else {
        let given = try XCTUnwrap(item["files"]?.object)
        for name in given.keys { files[name] = Data(try item.at("files").data(name)) }
      }
      let schema = try item["schema"]?.string.map { try XCTUnwrap(Schema(rawValue: $0)) } ?? .models
      let found = try verify(files, trust, now: now, schema: schema)
      XCTAssertEqual(found.files, files, "the bytes verified are the bytes used")
      return "valid"
    } catch let refused as Refused { return refused.verdict.rawValue }
  }

  func testEveryBundleOfTheCorpusHasItsVerdict() throws {
    let folder = vectors.appendingPathComponent("bundles")
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".json") }.sorted()
    var (checked, seen) = (0, Set<String>())
    for name in names {
      let item = try looseJson(vector("bundles/\(name)"))
      if item["links"] != nil { continue }  // maps of files have none; the next test has a folder
      let wanted = try item.words("verdict")
      XCTAssertEqual(try verdict(item), wanted, name)
      seen.insert(wanted)
      checked += 1
    }
    print("bundles: \(checked) cases, \(seen.count) verdicts")
    XCTAssertGreaterThan(checked, 140)
  }

  func testAFolderWithALink() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    defer { try? FileManager.default.removeItem(at: folder) }
    let item = try vectorJson("bundles/link.json")
    for name in try XCTUnwrap(item["files"]?.object).keys {
      let path = folder.appendingPathComponent(name.string)
      try FileManager.default.createDirectory(at: path.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(item.at("files").data(name)).write(to: path)
    }
    let trust = try Trust(json: item.at("trust"))
    let now = try XCTUnwrap(secondsSince1970(ExactText(item.words("now"))))
    let sound = try verify(readFolder(folder), trust, now: now)
    for link in try item.items("links") {
      let path = folder.appendingPathComponent(try XCTUnwrap(link.string)).path
      try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "/etc/passwd")
    }
    XCTAssertThrowsError(try readFolder(folder)) { XCTAssertEqual(($0 as? Refused)?.verdict.rawValue, "link") }

    let target = folder.appendingPathComponent("written")
    try sound.write("artifacts", to: target)
    let names = try FileManager.default.contentsOfDirectory(atPath: target.path)
    XCTAssertEqual(names, ["age.fp16.tflite"])
    XCTAssertThrowsError(try sound.write("nothing", to: folder.appendingPathComponent("other")))
  }

  func testWhatWasSeenIsRemembered() throws {
    let item = try vectorJson("bundles/signed.json")
    var files: [ExactText: Data] = [:]
    for name in try XCTUnwrap(item["files"]?.object).keys { files[name] = Data(try item.at("files").data(name)) }
    let now = try XCTUnwrap(secondsSince1970(ExactText(item.words("now"))))
    let found = try verify(files, Trust(json: item.at("trust")), now: now)
    var next = try Trust(json: item.at("trust")).having(seen: found.publication)
    XCTAssertEqual(next.minimumRelease, 7)
    XCTAssertEqual(next.name, "face-age")
    XCTAssertEqual(next.revoked, [String(repeating: "6", count: 64)])
    XCTAssertNoThrow(try verify(files, next, now: now))
    next.minimumRelease = 8
    XCTAssertThrowsError(try verify(files, next, now: now)) { XCTAssertEqual(($0 as? Refused)?.verdict, .downgraded) }
  }

  func testTheExampleOfRfc8785() throws {
    let text =
      #"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#
    let wanted = #"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
    XCTAssertEqual(String(decoding: try canonical(looseJson(Array(text.utf8))), as: UTF8.self), wanted)
    for (number, spelling) in [
      (1e21, "1e+21"), (1e20, "100000000000000000000"), (1e-6, "0.000001"), (1e-7, "1e-7"), (-1.5, "-1.5"),
      (.leastNonzeroMagnitude, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"), (-0.0, "0"),
      (123456789.125, "123456789.125"), (0.1, "0.1"),
    ] { XCTAssertEqual(ecmaScript(number), spelling) }
  }

  func testJsonOfWhichThereIsOneReading() throws {
    for text in [
      #"{"a":1,"\u0061":2}"#, "01", "1.", ".5", "+1", "1e", "[1,]", "{,}", "nul", "'a'", "\"\t\"", #""\ud800""#, #""\ud800\u0041""#,
      "9007199254740993",
      "1e999", "NaN", "[1] 2", "", "\u{feff}1", #"{"a" 1}"#, #""\x""#, "-",
    ] { XCTAssertThrowsError(try strictJson(Array(text.utf8)), text) }
    XCTAssertThrowsError(try strictJson([0x22, 0xff, 0x22]))
    // Two spellings of one letter are two keys, and the Kelvin sign is not a K.
    let two = try strictJson(Array("{\"a\u{308}\":1,\"\u{e4}\":2,\"K\":3,\"\u{212a}\":4}".utf8))
    XCTAssertEqual(two.object?.count, 4)
    XCTAssertEqual(two["K"]?.int, 3)
  }

  func testTimes() {
    XCTAssertEqual(secondsSince1970("1970-01-01T00:00:00Z"), 0)
    XCTAssertEqual(secondsSince1970("2027-05-01T00:00:00Z"), 1_809_129_600)
    XCTAssertEqual(secondsSince1970("2024-02-29T23:59:59Z"), 1_709_251_199)
    for wrong: ExactText in [
      "2027-02-29T00:00:00Z", "2027-13-01T00:00:00Z", "2027-05-01T24:00:00Z", "2027-5-01T00:00:00Z", "0999-01-01T00:00:00Z",
    ] {
      XCTAssertNil(secondsSince1970(wrong))
    }
  }
}
