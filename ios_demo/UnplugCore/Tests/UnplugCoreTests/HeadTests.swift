import Foundation
import XCTest

@testable import UnplugCore

final class HeadTests: XCTestCase {
  func testTheRunOfASmallHead() throws { for kind in ["head", "head/classes"] { try runTheSteps(kind) } }

  private func runTheSteps(_ kind: String) throws {
    let said = try vectorJson("\(kind)/steps.json")
    let tolerance = try said.number("tolerance")
    var head = try DeviceHead(vector("\(kind)/start.safetensors"))
    for step in try said.items("steps") {
      let (name, truth, features) = (try step.words("name"), try step.number("truth"), try step.doubles("features"))
      XCTAssertEqual(hex(try head.commitment(name, features, truth: truth)), try step.words("commitment"))
      head = try step.words("do") == "add" ? head.adding(name, features, truth: truth) : head.removing(name, features, truth: truth)
    }
    // Byte for byte in the tensors, whose digest both files carry.
    let end = try DeviceHead(vector("\(kind)/end.safetensors"))
    XCTAssertEqual(head.digest, end.digest)
    XCTAssertEqual(try DeviceHead(head.data()).digest, end.digest)
    XCTAssertEqual(try Safetensors(head.data()).tensors, try Safetensors(vector("\(kind)/end.safetensors")).tensors)

    let (weight, bias) = try head.weights()
    for (row, wanted) in zip(weight, try said.items("weights")) {
      let numbers = try XCTUnwrap(wanted.list).map { try XCTUnwrap($0.double) }
      assertNear(row, numbers, absolute: tolerance * numbers.map(abs).max()!, "weights")
    }
    let biases = try said.doubles("bias")
    assertNear(bias, biases, absolute: tolerance * biases.map(abs).max()!, "bias")
    let (logits, ages) = (try said.items(head.classes.isEmpty ? "age_logits" : "logits"), said["expected_age"]?.list)
    for (place, asked) in try said.items("asked").enumerated() {
      let answer = try head.answer(XCTUnwrap(asked.list).map { try XCTUnwrap($0.double) })
      let wanted = try XCTUnwrap(logits[place].list).map { try XCTUnwrap($0.double) }
      assertNear(answer.logits, wanted, absolute: tolerance * wanted.map(abs).max()!, "logits")
      guard let ages else {
        let likeliest = try XCTUnwrap(wanted.indices.max { wanted[$0] < wanted[$1] })
        XCTAssertEqual(answer.said.shares[0].name, head.classes[likeliest])
        continue
      }
      assertNear([try XCTUnwrap(answer.said.years)], [try XCTUnwrap(ages[place].list?.first?.double)], relative: tolerance, "age")
    }
  }

  func testWhatIsRefused() throws {
    let raw = try vector("head/start.safetensors")
    let head = try DeviceHead(raw)
    let features = [Double](repeating: 0.5, count: 6)
    XCTAssertThrowsError(try head.removing("nobody", features, truth: 30))
    XCTAssertThrowsError(try head.adding("me", [1], truth: 30))
    XCTAssertThrowsError(try head.adding("me", [.nan] + features.dropFirst(), truth: 30))
    XCTAssertThrowsError(try head.adding("me", features, truth: 128))
    let mine = try head.adding("me", features, truth: 30)
    XCTAssertThrowsError(try mine.adding("me", features, truth: 30))
    XCTAssertThrowsError(try mine.removing("me", features, truth: 31))
    XCTAssertEqual(try mine.removing("me", features, truth: 30).digest, head.digest)
    let labels = try DeviceHead(vector("head/classes/start.safetensors"))
    for number in [-1, 4, 0.5, Double.nan] { XCTAssertThrowsError(try labels.adding("me", features, truth: number)) }
    XCTAssertThrowsError(try labels.adding("me", features, truth: 1).removing("me", features, truth: 2))
    for place in stride(from: 0, to: raw.count, by: 7) {
      var edited = raw
      edited[place] ^= 1
      // A changed byte of the text may be a changed digit of an age group's name, say; of the numbers, never.
      if place >= raw.count - 1200 { XCTAssertThrowsError(try DeviceHead(edited), "\(place)") } else { _ = try? DeviceHead(edited) }
    }
    for end in stride(from: 0, to: raw.count, by: 97) { XCTAssertThrowsError(try DeviceHead(raw.prefix(end))) }
  }
}

extension HeadTests {
  func testWhatAHeadMayNotSayOfItself() throws {
    for (kind, changes) in try XCTUnwrap(vectorJson("head/limits.json").at("refused").object) {
      let file = try Safetensors(vector("head/\(kind.string)/start.safetensors"))
      let said = try XCTUnwrap(looseJson(Array(XCTUnwrap(file.metadata["unplug"]).utf8)).object)
      let tensors = file.tensors.map { ($0, $1) }
      func written(_ facts: [ExactText: Json]) -> Data {
        Safetensors.write(tensors, metadata: ["unplug": String(decoding: canonical(.object(facts)), as: UTF8.self)])
      }
      XCTAssertNoThrow(try DeviceHead(written(said)))
      for change in try XCTUnwrap(changes.list) {
        let edited = said.merging(try XCTUnwrap(change.object)) { $1 }.filter { $0.value != .null }
        XCTAssertThrowsError(try DeviceHead(written(edited)), "\(change)")
      }
    }
  }

  /// A head of one feature and so many classes, with a picture of the last in it.
  private func wide(_ groups: Int) -> Data {
    let z = [2 << 14, 1 << 19] + [Int64](repeating: 0, count: groups - 1) + [1 << 19]
    let sums = z.indices.flatMap { row in z[row...].flatMap { (z[row] * $0).littleEndianBytes } }
    let one = Float(1).bitPattern.littleEndianBytes
    func tensor(_ dtype: String, _ shape: [Int], _ bytes: [UInt8]) -> Safetensors.Tensor {
      Safetensors.Tensor(dtype: dtype, shape: shape, bytes: bytes[...])
    }
    let tensors = [
      ("lift", tensor("F32", [1, 1], one)), ("offset", tensor("F32", [1], one)),
      ("centers", tensor("F64", [groups], [UInt8](repeating: 0, count: 8 * groups))), ("sums", tensor("I64", [sums.count / 8], sums)),
      ("committed", tensor("U8", [1, 32], [UInt8](repeating: 0, count: 32))),
    ]
    let digest = sha256Hex(Data(tensors.flatMap { name, tensor in Array(name.utf8) + [0] + tensor.bytes }))
    let facts: [ExactText: Json] = [
      "schema": .text("unplug-head/1"), "trunk_sha256": .text("0"), "digest": .text(ExactText(digest)), "grid": .number(1),
      "ridge": .number(1), "scale": .number(1), "classes": .list((0..<groups).map { .text(ExactText("class \($0)")) }),
    ]
    return Safetensors.write(tensors, metadata: ["unplug": String(decoding: canonical(.object(facts)), as: UTF8.self)])
  }

  func testAsManyGroupsAsAHeadMayHave() throws {
    let most = try vectorJson("head/limits.json").whole("groups")
    XCTAssertEqual(try DeviceHead(wide(most)).answer([1]).said.shares[0].name, "class \(most - 1)")
    XCTAssertThrowsError(try DeviceHead(wide(most + 1)))
  }
}

/// The owner's pictures in a head: by themselves, and on the screen.
final class OwnHeadTests: XCTestCase, @unchecked Sendable {
  private let pictures = (1...3).map { number in (0..<6).map { 0.1 * Double($0 * number) } }

  private func start() throws -> DeviceHead { try DeviceHead(vector("head/start.safetensors")) }

  private func filled() throws -> OwnHead {
    var own = OwnHead(try start())
    for (place, pooled) in pictures.enumerated() { try own.add(pooled, truth: 20 + Double(place)) }
    return own
  }

  func testTheyLeaveNoTrace() throws {
    var own = try filled()
    let change = try own.changes([pictures[2]])[0]
    XCTAssertEqual(change.before, try start().answer(pictures[2]).said)
    XCTAssertLessThan(abs(try XCTUnwrap(change.now.years) - 22), abs(try XCTUnwrap(change.before.years) - 22))
    XCTAssertTrue(try own.proof().isEqual)
    XCTAssertNotEqual(own.head.digest, try start().digest)
    try own.remove(2)
    XCTAssertEqual(own.pictures.map(\.number), [1, 3])
    XCTAssertTrue(try own.proof().isEqual)
    try own.add(pictures[1], truth: 21)
    XCTAssertEqual(own.pictures.map(\.number), [1, 3, 4])
    try own.removeAll()
    XCTAssertEqual(try own.proof(), Proof(found: try start().digest, never: try start().digest))
    XCTAssertEqual(own.head.data(), try start().data())
  }

  func testWhatAPhoneKeepsGivesTheSameHead() throws {
    let own = try filled()
    let again = try OwnHead(start(), kept: own.data())
    XCTAssertEqual(again.head.digest, own.head.digest)
    XCTAssertEqual(again.pictures, own.pictures)
    let text = String(decoding: own.data(), as: UTF8.self)
    let other = text.replacingOccurrences(of: String(repeating: "0", count: 64), with: String(repeating: "1", count: 64))
    XCTAssertEqual(try OwnHead(start(), kept: Data(other.utf8)).pictures, [])
    for edited in ["{", "[]", text.replacingOccurrences(of: "unplug-own/1", with: "unplug-own/2")] {
      XCTAssertThrowsError(try OwnHead(start(), kept: Data(edited.utf8)), edited)
    }
  }

  func testWhatIsRefused() throws {
    var own = try filled()
    let digest = own.head.digest
    XCTAssertThrowsError(try own.add(pictures[1], truth: 30)) { XCTAssertTrue("\($0)".contains("as picture 2"), "\($0)") }
    for age in [-1, 128, Double.nan] { XCTAssertThrowsError(try own.add([1, 2, 3, 4, 5, 6], truth: age)) }
    XCTAssertThrowsError(try own.add([1], truth: 30))
    XCTAssertEqual(own.head.digest, digest, "what is refused changes nothing")
  }

  func testLabelsAreKeptByNameAndNoAgeIsTakenForOne() throws {
    let labels = try DeviceHead(vector("head/classes/start.safetensors"))
    var own = OwnHead(labels)
    for (place, pooled) in pictures.enumerated() { try own.add(pooled, truth: Double(place)) }
    XCTAssertTrue(try own.proof().isEqual)
    var again = try OwnHead(labels, kept: own.data())
    XCTAssertEqual(again.head.digest, own.head.digest)
    try again.remove(2)
    XCTAssertTrue(try again.proof().isEqual)
    try again.removeAll()
    XCTAssertEqual(again.head.digest, labels.digest)
    let text = String(decoding: own.data(), as: UTF8.self)
    let renamed = text.replacingOccurrences(of: "\"dog\"", with: "\"wolf\"").replacingOccurrences(of: "\"cat\"", with: "\"golden eagle\"")
    let left = try OwnHead(labels, kept: Data(renamed.utf8)).pictures
    XCTAssertEqual(left.map(\.number), [1, 3])
    XCTAssertEqual(left.map(\.truth), [2, 2])
    XCTAssertEqual(try OwnHead(start(), kept: own.data()).pictures, [])
    XCTAssertEqual(try OwnHead(labels, kept: filled().data()).pictures, [])
    let both = text.replacingOccurrences(of: "\"label\"", with: "\"age\":3,\"label\"")
    XCTAssertThrowsError(try OwnHead(labels, kept: Data(both.utf8)))
  }

  private func folder(_ names: [String]) throws -> URL {
    let place = temporary()
    for name in names {
      let path = place.appendingPathComponent(name.hasPrefix("age-trunk") ? "files/\(name)" : "head.safetensors")
      try FileManager.default.createDirectory(at: path.deletingLastPathComponent(), withIntermediateDirectories: true)
      try vector("head/\(name)").write(to: path)
    }
    return place
  }

  private let all = ["start.safetensors", "age-trunk.fp32.onnx", "age-trunk.fp32.onnx.json"]

  @MainActor func testTheScreen() async throws {
    let (told, photograph) = (try vectorJson("head/own.json"), try picture(vectorJson("app/bundle.json").at("picture")))
    let (phone, home) = (try folder(all), temporary())
    defer { for place in [phone, home] { try? FileManager.default.removeItem(at: place) } }
    let facts = PhotographFacts(width: photograph.width, height: photograph.height, orientation: 1)
    let decoder = MadeUp(found: facts, stored: photograph)
    let opener = try onnx()
    func screen() -> ForgetScreen {
      ForgetScreen(openers: [opener], finder: Faces(found: []), decoder: decoder, home: home.appendingPathComponent("head"))
    }
    let first = screen()
    await first.look(at: jpeg, nil)
    XCTAssertEqual(first.failure, "The head: none is open. Open the folder that unplug head make wrote.")
    try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
    await first.open(phone)
    XCTAssertNil(first.failure)
    let untouched = try XCTUnwrap(first.shown?.proof)
    await first.look(at: jpeg, nil)
    assertNear([try XCTUnwrap(first.shown?.asked?.now.years)], [try told.number("before")], absolute: 1e-4, "before")
    first.age = "old"
    await first.add()
    XCTAssertEqual(first.failure, "The age: it is not a number. Give years.")
    first.age = "128"
    await first.add()
    XCTAssertTrue(try XCTUnwrap(first.failure).hasSuffix("it is not an age. Give years from 0 up to 127."))
    first.age = "31"
    await first.add()
    XCTAssertNil(first.failure)
    XCTAssertEqual(first.summary, "Pictures in this head: 11. Yours: 1.")
    XCTAssertEqual(first.shown?.rows.map(\.title), ["Picture 1, 31 years"])
    assertNear([try XCTUnwrap(first.shown?.asked?.now.years)], [try told.number("now")], absolute: 1e-4, "now")
    await first.add()
    XCTAssertEqual(first.failure, "The photograph: it is in this head already, as picture 1. Choose another one.")

    let second = screen()
    await second.reopen()
    XCTAssertEqual(second.shown?.rows, first.shown?.rows)
    await second.remove(1)
    XCTAssertEqual(second.shown?.proof, untouched)
    XCTAssertEqual(second.shown?.verdict, "Equal, bit for bit")
    let third = screen()
    await third.reopen()
    XCTAssertEqual(third.shown?.rows, [])
  }

  @MainActor func testTheScreenOfLabels() async throws {
    let (told, photograph) = (try vectorJson("head/classes/own.json"), try picture(vectorJson("app/bundle.json").at("picture")))
    let (phone, home) = (try folder(["classes/start.safetensors"] + all.dropFirst()), temporary())
    defer { for place in [phone, home] { try? FileManager.default.removeItem(at: place) } }
    try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
    let facts = PhotographFacts(width: photograph.width, height: photograph.height, orientation: 1)
    let (decoder, opener) = (MadeUp(found: facts, stored: photograph), try onnx())
    let screen = ForgetScreen(openers: [opener], finder: Faces(found: []), decoder: decoder, home: home.appendingPathComponent("head"))
    await screen.open(phone)
    XCTAssertNil(screen.failure)
    let untouched = try XCTUnwrap(screen.shown?.proof)
    XCTAssertEqual(screen.shown?.labels, ["cat", "dog", "golden eagle", "猫"])
    await screen.look(at: jpeg, nil)
    screen.label = try told.whole("truth")
    await screen.add()
    XCTAssertNil(screen.failure)
    XCTAssertEqual(screen.shown?.rows.map(\.title), ["Picture 1, golden eagle"])
    let asked = try XCTUnwrap(screen.shown?.asked)
    XCTAssertEqual(asked.text, "The head that came says dog, 69.6 %, with your pictures golden eagle, 60.8 %.")
    for (name, said) in [("before", asked.before), ("now", asked.now)] {
      XCTAssertEqual(said.shares[0].name, try told.words(ExactText("label_\(name)")))
      assertNear([said.shares[0].probability], [try told.number(ExactText(name))], absolute: 1e-4, name)
    }
    await screen.remove(1)
    XCTAssertEqual(screen.shown?.proof, untouched)
    XCTAssertEqual(screen.shown?.verdict, "Equal, bit for bit")
  }

  @MainActor func testWhatIsNoHeadIsToldAndNothingIsLost() async throws {
    let (phone, home) = (try folder(all), temporary())
    try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
    let opener = try onnx()
    let screen = ForgetScreen(openers: [opener], finder: Faces(found: []), decoder: MadeUp(), home: home.appendingPathComponent("head"))
    await screen.open(phone)
    XCTAssertNil(screen.failure)
    var places = [phone, home]
    defer { for place in places { try? FileManager.default.removeItem(at: place) } }
    for missing in all {
      let place = try folder(all.filter { $0 != missing })
      places.append(place)
      await screen.open(place)
      XCTAssertTrue(try XCTUnwrap(screen.failure).hasPrefix("The head: "), screen.failure ?? "")
    }
    let changed = try folder(all)
    places.append(changed)
    try Data([1, 2, 3]).write(to: changed.appendingPathComponent("files/age-trunk.fp32.onnx"))
    await screen.open(changed)
    XCTAssertEqual(screen.failure, "The trunk: it is another file than its card says. Open the head again.")
    XCTAssertEqual(screen.summary, "Pictures in this head: 10. Yours: 0.")
  }
}
