import XCTest

@testable import UnplugCore

/// tests/vectors/decision: P(age >= T) and over, under or unsure, as Python has them.
final class DecisionTests: XCTestCase {
  private func limits(_ decision: Json, _ edges: [Double]) throws -> Limits? {
    try Limits(.object(["decision": decision]), edges)
  }

  func testProbabilitiesAndAnswersArePythons() throws {
    let all = try vectorJson("decision/decision.json")
    let cases = try all.items("cases")
    XCTAssertEqual(cases.count, 54)
    let record = try all.at("record").at("decision")
    for one in cases {
      let (what, edges) = (try one.words("what"), try one.doubles("edges"))
      let over = overProbability(softmax(try one.floats("age_logits").map(Double.init)), edges, try one.number("age"))
      assertNear([over], [try one.number("over")], absolute: try all.number("tolerance"), what)
      let rule = try XCTUnwrap(limits(changed(record, one), edges))
      XCTAssertEqual(rule.decide(over).rawValue, try one.words("answer"), what)
    }
  }

  func testWhatNoAppMayDecideByIsRefused() throws {
    let all = try vectorJson("decision/decision.json")
    let good = try all.at("record")
    let rule = try XCTUnwrap(limits(good.at("decision"), good.doubles("edges")))
    XCTAssertEqual([rule.age, rule.overFrom, rule.underTo, rule.maxFpr, rule.maxFnr, rule.confidence], [18, 0.92, 0.31, 0.01, 0.05, 0.95])
    XCTAssertEqual(rule.decide(.nan), .unsure)
    let cases = try all.items("refused")
    XCTAssertEqual(cases.count, 16)
    for one in cases {
      let what = try one.words("what")
      XCTAssertThrowsError(try limits(one.at("decision"), one.doubles("edges")), what)
    }
  }

  func testItDecidesAboutTheModelsThatItNames() throws {
    let all = try vectorJson("decision/decision.json")
    let (edges, cases) = (try all.at("record").doubles("edges"), try all.items("models"))
    XCTAssertEqual(cases.count, 6)
    for one in cases {
      let rule = try XCTUnwrap(limits(one.at("decision"), edges))
      let (what, sha256) = (try one.words("what"), try one.words("sha256"))
      XCTAssertEqual(rule.models.contains(sha256), one["fitted"] == .bool(true), what)
    }
  }

  /// The record with the rule of a case.
  private func changed(_ record: Json, _ one: Json) throws -> Json {
    var fields = try XCTUnwrap(record.object)
    for name: ExactText in ["age", "over_from", "under_to"] { fields[name] = try one.at(name) }
    return .object(fields)
  }
}
