import XCTest

@testable import UnplugCore

/// tests/vectors/family-choice.json: which member of a family a phone takes.
final class FamilyTests: XCTestCase {
  private func chosen(_ item: Json) throws -> Member {
    let members = try item.items("members").map { Member(name: try $0.words("name"), latencyMs: $0["latency_ms"]?.double, checkpoint: "") }
    return try chooseMember(members, budgetMs: item.number("budget_ms"))
  }

  func testTheFirstThatFits() throws {
    XCTAssertEqual(try vectorJson("family-choice.json").number("frame_ms"), frameMs)
    for item in try vectorJson("family-choice.json").items("cases") {
      let what = try item.words("what")
      if let fits = item["fits"]?.string {
        XCTAssertEqual(try chosen(item).name, fits, what)
      } else {
        XCTAssertThrowsError(try chosen(item), what) { XCTAssertTrue("\($0)".contains("no member fits"), "\($0)") }
      }
    }
  }

  func testAManifestsFamily() throws {
    func bundle(_ family: String) throws -> Verified {
      let sound = try verified("app/bundle.json")
      let manifest = try looseJson(Array(#"{"postprocessing":{"family":\#(family)}}"#.utf8))
      return Verified(id: sound.id, hint: sound.hint, publication: sound.publication, manifest: manifest, files: sound.files)
    }
    func members(_ ms: String) -> String {
      #"{"schema":"unplug-family/1","members":[{"name":"a","checkpoint_sha256":"b","trunk_sha256":"c","latency_ms":\#(ms)}]}"#
    }
    XCTAssertEqual(try bundle(members("3")).member([:])?.name, "a")
    XCTAssertNil(try bundle("null").member([:]))
    for (family, measured) in [("[]", [:]), (members("\"3\""), [:]), (members("null"), [:]), (members("3"), ["b": 34.0])] {
      XCTAssertThrowsError(try bundle(family).member(measured), family)
    }
    XCTAssertEqual(try bundle(members("null")).member(["b": 33])?.latencyMs, 33)
  }

  func testWhatIsNoFamily() throws {
    for item in try vectorJson("family-choice.json").items("refused") {
      let what = try item.words("what")
      XCTAssertThrowsError(try chosen(item), what) { XCTAssertFalse("\($0)".contains("no member fits"), "\($0)") }
    }
    for budget in [Double.nan, .infinity] {
      XCTAssertThrowsError(try chooseMember([Member(name: "a", latencyMs: 1, checkpoint: "")], budgetMs: budget))
    }
  }
}
