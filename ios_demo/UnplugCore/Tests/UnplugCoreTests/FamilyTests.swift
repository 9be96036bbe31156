import XCTest

@testable import UnplugCore

/// tests/vectors/family-choice.json: which member of a family a phone takes.
final class FamilyTests: XCTestCase {
  private func chosen(_ item: Json) throws -> Member {
    let members = try item.items("members").map { Member(name: try $0.words("name"), latencyMs: $0["latency_ms"]?.double) }
    return try chooseMember(members, budgetMs: item.number("budget_ms"))
  }

  func testTheFirstThatFits() throws {
    for item in try vectorJson("family-choice.json").items("cases") {
      let what = try item.words("what")
      if let fits = item["fits"]?.string {
        XCTAssertEqual(try chosen(item).name, fits, what)
      } else {
        XCTAssertThrowsError(try chosen(item), what) { XCTAssertTrue("\($0)".contains("no member fits"), "\($0)") }
      }
    }
  }

  func testWhatIsNoFamily() throws {
    for item in try vectorJson("family-choice.json").items("refused") {
      let what = try item.words("what")
      XCTAssertThrowsError(try chosen(item), what) { XCTAssertFalse("\($0)".contains("no member fits"), "\($0)") }
    }
    for budget in [Double.nan, .infinity] {
      XCTAssertThrowsError(try chooseMember([Member(name: "a", latencyMs: 1)], budgetMs: budget))
    }
  }
}
