import Foundation
import XCTest

@testable import UnplugCore

/// tests/vectors/pipeline, within the tolerances that its files state.
final class DrawTests: XCTestCase {
  func testTokensOfTheGoldenPrompts() throws {
    let tokenizer = try Tokenizer(vectorJson("pipeline/tokenizer.json"))
    let prompts = try vectorJson("pipeline/tokens.json").items("prompts")
    for item in prompts {
      let text = String(repeating: try item.words("text"), count: item["times"]?.int ?? 1)
      let found = try tokenizer.encode(text)
      XCTAssertEqual(found.ids.map(Int.init), try item.ints("ids"), String(text.prefix(40)))
      XCTAssertEqual(found.tokens, try item.whole("tokens"), String(text.prefix(40)))
    }
    XCTAssertGreaterThan(prompts.count, 10)
    XCTAssertEqual(try tokenizer.encode("a xylophone").spelled, ["xylophone"])
    XCTAssertThrowsError(try tokenizer.encode(String(repeating: "a", count: 65_537)))
  }

  func testLearnedWordsAreCutOutAsTransformersDoes() throws {
    let learned = try XCTUnwrap(vectorJson("pipeline/tokens.json")["learned"])
    let data = try XCTUnwrap(vectorJson("pipeline/tokenizer.json").object)
    let (known, added) = (try XCTUnwrap(data["vocabulary"]?.list), try learned.items("added"))
    let vocabulary = Json.list(known + (try learned.items("words")))
    let tokenizer = try Tokenizer(.object(data.merging(["vocabulary": vocabulary, "added": .list(added)]) { $1 }))
    for item in try learned.items("prompts") {
      let text = try item.words("text")
      let found = try tokenizer.encode(text)
      XCTAssertEqual(found.ids.map(Int.init), try item.ints("ids"), text)
      XCTAssertEqual(found.spelled, try item.items("spelled").map { try XCTUnwrap($0.string) }, text)
    }
    for wrong in [Json.list([added[0], added[0]]), .list([.object(["id": .number(0)])]), .text("none")] {
      XCTAssertThrowsError(try Tokenizer(.object(data.merging(["vocabulary": vocabulary, "added": wrong]) { $1 })))
    }
  }

  func testPromptsAskForPacksByTheirWords() throws {
    let known = try vectorJson("pipeline/packs.json")
    let prompts = try known.items("prompts").map { PackWords.of(try XCTUnwrap($0.string)) }
    for (word, wanted) in try XCTUnwrap(known["words"]?.object) {
      XCTAssertTrue(PackWords.hold(word.string), word.string)
      let found = prompts.indices.filter { PackWords.stand(PackWords.of(word.string), in: prompts[$0]) }
      XCTAssertEqual(found, wanted.list?.compactMap(\.int), word.string)
    }
    for none in try known.items("none") { XCTAssertFalse(PackWords.hold(try XCTUnwrap(none.string)), "\(none)") }
    XCTAssertTrue(PackWords.hold(String(repeating: "\u{1d552}", count: 64)))
  }

  func testATokenizerThatDoesNotHold() throws {
    let data = try XCTUnwrap(vectorJson("pipeline/tokenizer.json").object)
    func changed(_ key: ExactText, _ value: Json) -> Json { .object(data.merging([key: value]) { $1 }) }
    XCTAssertNoThrow(try Tokenizer(.object(data)))
    let wrong: [(ExactText, Json)] = [
      ("length", .number(2)), ("start", .number(-1)), ("end", .number(1e9)), ("merges", .list([.text("x")])),
      ("merges", .list([.text("no such")])), ("vocabulary", .list([])), ("vocabulary", .list([.text("a"), .text("a")])),
    ]
    for (key, value) in wrong { XCTAssertThrowsError(try Tokenizer(changed(key, value)), "\(key)") }
  }

  func testTheNoiseStream() throws {
    let noise = try vectorJson("pipeline/noise.json")
    for item in try noise.items("philox") {
      let (counter, key) = (try item.ints("counter").map(UInt32.init), try item.ints("key").map(UInt32.init))
      let found = NoiseStream.philox(SIMD4(counter), SIMD2(key))
      XCTAssertEqual((0..<4).map { Int(found[$0]) }, try item.ints("words"))
    }
    for item in try noise.items("streams") {
      let (seed, stream) = (try XCTUnwrap(UInt64(item.words("seed"))), UInt64(try item.whole("stream")))
      let wanted = try item.ints("words")
      XCTAssertEqual(NoiseStream.words(seed: seed, stream: stream, count: wanted.count).map(Int.init), wanted)
      assertNear(wanted.map { NoiseStream.uniform(UInt32($0)) }, try item.doubles("uniforms"), "uniforms")
      let normals = NoiseStream.normals(seed: seed, stream: stream, count: 2048)
      assertNear(Array(normals.prefix(wanted.count)), try item.doubles("normals"), relative: 0x1p-21, absolute: 1e-7, "normals")
      assertNear([normals[2047]], try item.doubles("normal_2047"), relative: 0x1p-21, absolute: 1e-7, "normal 2047")
    }
  }

  func testTimestepsAndCoefficients() throws {
    let file = try vectorJson("pipeline/tables.json")
    let rows = try file.items("tables")
    for row in rows {
      let schedule = try Schedule(file.at("schedules")[ExactText(row.words("schedule"))])
      let solver = try XCTUnwrap(Solver(rawValue: row.words("solver")))
      let found = try SamplingTable(schedule, steps: row.whole("steps"), solver: solver)
      XCTAssertEqual(found.timestep, try row.ints("timestep"))
      let columns: [(ExactText, [Float])] = [
        ("latent_to_data", found.latentToData), ("prediction_to_data", found.predictionToData), ("keep", found.keep),
        ("data", found.data), ("previous", found.previous),
      ]
      for (key, values) in columns { assertNear(values, try row.doubles(key), relative: 2e-6, absolute: 1e-6, "\(solver) \(key)") }
      assertNear(found.guidance.map { Float($0) }, try row.doubles("guidance"), relative: 2e-6, absolute: 1e-6, "\(solver) guidance")
    }
    XCTAssertEqual(rows.count, 20)
    let schedule = try Schedule(file.at("schedules")["epsilon"])
    XCTAssertThrowsError(try SamplingTable(schedule, steps: 1000, solver: .dpm))
    XCTAssertThrowsError(try SamplingTable(schedule, steps: 0, solver: .ddim))
  }

  func testLatentsOfARecordedProblem() throws {
    let (tables, sampling) = (try vectorJson("pipeline/tables.json"), try vectorJson("pipeline/sampling.json"))
    let (told, untold) = (try sampling.items("predictions"), try sampling.items("negative_predictions"))
    for run in try sampling.items("runs") {
      let schedule = try Schedule(tables.at("schedules")[ExactText(run.words("schedule"))])
      let solver = try XCTUnwrap(Solver(rawValue: run.words("solver")))
      let table = try SamplingTable(schedule, steps: sampling.whole("steps"), solver: solver)
      let latents = try run.items("latents").map { try XCTUnwrap($0.list).map { try XCTUnwrap($0.double) } }
      var latent = NoiseStream.normals(seed: UInt64(try sampling.whole("seed")), count: latents[0].count)
      var before = [Float](repeating: 0, count: latent.count)
      for (step, wanted) in latents.enumerated() {
        func floats(_ value: Json) throws -> [Float] { try XCTUnwrap(value.list).map { Float(try XCTUnwrap($0.double)) } }
        let scale = table.scale(step, try sampling.number("guidance"))
        let prediction = guided(try floats(told[step]), try floats(untold[step]), scale)
        (latent, before) = table.advance(step, latent: latent, prediction: prediction, before: before)
        assertNear(latent, wanted, absolute: 1e-5 * wanted.map(abs).max()!, "\(solver) step \(step)")
      }
    }
  }

  func testPixelsAtBothEnds() throws {
    let known = try vectorJson("pipeline/pixels.json")
    let decoded = try known.floats("decoded")
    // The picture is square: eleven numbers are a row of it, the others are zeros.
    let side = decoded.count
    let plane = decoded + [Float](repeating: 0, count: side * (side - 1))
    let picture = toPicture(plane + plane + plane, side: side)
    XCTAssertEqual((0..<side).map { Int(picture.rgb[3 * $0 + 1]) }, try known.ints("bytes"))
    let bytes = try known.ints("condition").map(UInt8.init)
    let condition = Picture(width: bytes.count, height: 1, rgb: bytes.flatMap { [$0, $0, $0] })
    for (key, range) in [("range_0_1", [0.0, 1.0]), ("range_-1_1", [-1.0, 1.0])] as [(ExactText, [Double])] {
      let wanted = try known.doubles(key)
      assertNear(conditionInput(condition, range: range), wanted + wanted + wanted, absolute: 1e-7, "condition")
    }
  }

  func testEdgesAreOpenCVs() throws {
    let cases = try vectorJson("pipeline/canny.json").items("cases")
    for item in cases {
      let (width, height) = (try item.whole("width"), try item.whole("height"))
      let picture = Picture(width: width, height: height, rgb: try item.data("rgb"))
      let found = Canny.edges(Canny.grey(picture), width, height, low: try item.whole("low"), high: try item.whole("high"))
      let bits = try item.data("edges")
      let wanted = found.indices.map { bits[$0 >> 3] >> (7 - UInt8($0 & 7)) & 1 == 1 ? UInt8(255) : 0 }
      XCTAssertTrue(wanted.contains(255))
      XCTAssertEqual(found, wanted, "\(width) x \(height)")
    }
    XCTAssertEqual(cases.count, 5)
  }
}
