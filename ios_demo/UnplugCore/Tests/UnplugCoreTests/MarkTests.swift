import Foundation
import XCTest

@testable import UnplugCore

/// Sees the public key in a light picture, and zeros in a black one.
private final class Reader: Engine {
  let iospec: IOSpec
  let delegateGot: String? = nil

  init(_ iospec: IOSpec) { self.iospec = iospec }

  func run(_ inputs: Tensors) throws -> Tensors {
    let light = inputs["image"]?.floats?[0] ?? 0
    return ["bits": .floats(try Mark.keyBits(Mark.publicKey).map { $0 ? light : 0 })]
  }
}

private struct ReaderOpener: Opener {
  let runtime = "onnx-app"
  let version: String? = nil
  let delegates = ["cpu"]
  func open(_ file: URL, iospec: IOSpec, delegate: String, threads: Int) throws -> any Engine { Reader(iospec) }
}

/// tests/vectors/mark.json, and what a screen says of a base's reader.
final class MarkTests: XCTestCase {
  private func picture(_ width: Int, _ height: Int, _ divided: Int = 1) -> Picture {
    var rgb: [UInt8] = []
    for y in 0..<height {
      for x in 0..<width {
        for c in 1...3 {
          let value: Int = x * x * (c + 2) + 5 * x * y
          rgb.append(UInt8((value + 7 * y * y * c) / divided % 256))
        }
      }
    }
    return Picture(width: width, height: height, rgb: rgb)
  }

  func testPicturesBeforeTheReaderArePythons() throws {
    let known = try vectorJson("mark.json")
    XCTAssertEqual(Mark.shares, try known.doubles("shares"))
    let (every, area, most) = (try known.whole("every"), Mark.side * Mark.side, try Int(255 * known.number("tolerance")))
    for item in try known.items("readings") {
      let found = try Mark.readings(picture(item.whole("width"), item.whole("height"), item.whole("divided")))
      for (seen, bytes) in zip(found, try item.items("bytes")) {
        let wanted = try XCTUnwrap(strictBase64(Array(XCTUnwrap(bytes.string).utf8)))
        let own = stride(from: 0, to: 3 * area, by: every).map { seen.rgb[3 * ($0 % area) + $0 / area] }
        XCTAssertEqual(own.count, wanted.count)
        for (one, other) in zip(own, wanted) { XCTAssertLessThanOrEqual(abs(Int(one) - Int(other)), most) }
      }
    }
    let refused = try known.ints("refused")
    XCTAssertThrowsError(try Mark.readings(picture(refused[0], refused[1])))
  }

  func testKeysChancesAndVerdictsArePythons() throws {
    let known = try vectorJson("mark.json")
    XCTAssertEqual(Mark.threshold, try known.number("threshold"))
    XCTAssertEqual(Mark.publicKey, try known.words("public_key"))
    for (key, bits) in try XCTUnwrap(known["keys"]?.object) {
      XCTAssertEqual(try Mark.keyBits(key.string).map { $0 ? 1 : 0 }, bits.list?.compactMap(\.int))
    }
    for key in try known.items("bad_keys") { XCTAssertThrowsError(try Mark.keyBits(XCTUnwrap(key.string))) }
    for (place, row) in try known.items("chances").enumerated() {
      XCTAssertEqual((0...Mark.bits).map { Mark.chance($0, place + 1) }, row.list?.compactMap(\.double))
    }
    for item in try known.items("verdicts") {
      let logits = try item.items("logits").map { try XCTUnwrap($0.list).map { Float(try XCTUnwrap($0.double)) } }
      let agree = try Mark.agree(logits, item.words("key"))
      XCTAssertEqual(agree, try item.whole("agree"))
      XCTAssertEqual(Mark.chance(agree), try item.number("chance"))
      XCTAssertEqual(.bool(Mark.chance(agree) <= Mark.threshold), item["marked"])
    }
  }

  func testAReaderWithABaseSaysWhatAPictureCarries() async throws {
    let (base, bytes) = (temporary(), Data("a reader".utf8))
    defer { try? FileManager.default.removeItem(at: base) }
    try FileManager.default.copyItem(at: vectors.appendingPathComponent("app/generator"), to: base)
    func expect(_ wanted: String?, light: UInt8 = 255, side: Int = 64) async throws {
      let shown = Picture(width: side, height: side, rgb: [UInt8](repeating: light, count: 3 * side * side))
      let told = await Painter().mark(shown, try Generator(base), [ReaderOpener()])
      XCTAssertEqual(told, wanted)
    }
    try await expect(nil)
    let file = base.appendingPathComponent("mark-reader/reader.onnx")
    try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    try bytes.write(to: file)
    let card = """
      {"target": "onnx", "precision": "fp32", "file": "reader.onnx", "sha256": "\(sha256Hex(bytes))", "bytes": 8,
      "model_type": "mark_reader", "iospec": {
      "inputs": [{"name": "image", "shape": [1, 128, 128, 3], "layout": "NHWC", "dtype": "float32"}],
      "outputs": [{"name": "bits", "shape": [1, 48], "layout": "NC", "dtype": "float32"}]}}
      """
    try Data(card.utf8).write(to: file.appendingPathExtension("json"))
    try await expect("This picture carries our public mark: 48 of 48 bits.")
    try await expect("No public mark was found, which proves nothing.", light: 0)
    try await expect("The mark was not read: The picture: it has 63x63 pixels. A mark is read from 64 pixels a side on.", side: 63)
    try Data("a raeder".utf8).write(to: file)
    let changed = "it is missing, or another file than its record says. Do not use this folder."
    try await expect("The mark was not read: mark-reader/reader.onnx: \(changed)")
  }
}
