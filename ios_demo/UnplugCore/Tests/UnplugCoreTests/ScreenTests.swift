import Foundation
import XCTest

@testable import UnplugCore

@MainActor
final class Remembered: Memory {
  private var values: [String: Data] = [:]
  subscript(name: String) -> Data? {
    get { values[name] }
    set { values[name] = newValue }
  }
}

struct Faces: FaceFinder {
  let found: [FoundFace]
  func faces(_ picture: Picture) async throws -> [FoundFace] { found }
}

func temporary() -> URL { FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString) }

/// A case of the corpus as a folder, or a zip file, on disk, and the key that its reader trusts or the whole of his trust.
func bundleFolder(_ name: String) throws -> (URL, Data) {
  let item = try vectorJson("bundles/\(name).json")
  let place = temporary()
  if item["zip"] != nil {
    try Data(item.data("zip")).write(to: place)
  } else {
    for file in try XCTUnwrap(item["files"]?.object).keys {
      let path = place.appendingPathComponent(file.string)
      try FileManager.default.createDirectory(at: path.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(item.at("files").data(file)).write(to: path)
    }
  }
  var trust = try XCTUnwrap(item["trust"]?.object)
  trust["schema"] = .text("unplug-trust/1")
  return (place, Data(canonical(.object(trust))))
}

/// The bundle of a file, verified.
func verified(_ path: String) throws -> Verified {
  let item = try vectorJson(path)
  var files: [ExactText: Data] = [:]
  for name in try XCTUnwrap(item["files"]?.object).keys { files[name] = Data(try item.at("files").data(name)) }
  return try verify(files, Trust(json: item.at("trust")), now: XCTUnwrap(secondsSince1970(ExactText(item.words("now")))))
}

/// What waits for a screen runs on the main actor, method by method: Linux's list of tests takes no class that is on it whole.
final class ScreenTests: XCTestCase, @unchecked Sendable {
  private let now = 1_796_083_200  // 2026-12-01

  /// A case of the corpus, and the public key that its reader trusts.
  private func folder(_ name: String) throws -> (URL, Data) {
    let key = try vectorJson("bundles/\(name).json")["trust"]?["keys"]?.list?[0].string
    return (try bundleFolder(name).0, Data(try XCTUnwrap(key).utf8))
  }

  @MainActor func testABundleIsOpenedAndRemembered() async throws {
    let (sound, key) = try folder("signed")
    let (changed, _) = try folder("changed-file")
    defer { for place in [sound, changed] { try? FileManager.default.removeItem(at: place) } }
    let (memory, time) = (Remembered(), now)
    let screen = BundleScreen(memory, now: { time })
    await screen.open(sound)
    guard case .refused(let why) = screen.state else { return XCTFail("nobody is trusted yet") }
    XCTAssertTrue(why.contains("trusts no key"), why)
    screen.trust(Data("no key".utf8))
    XCTAssertFalse(screen.hasTrust)
    screen.trust(key)
    await screen.open(sound)
    guard case .ready(let facts) = screen.state else { return XCTFail("\(screen.state)") }
    XCTAssertEqual([facts.name, "\(facts.release)"], ["face-age", "7"])
    XCTAssertEqual(facts.requests, ["2026-0017"])
    XCTAssertEqual(facts.papers, ["README.md", "reports/audit.json"])
    XCTAssertEqual(screen.paper("README.md"), "A card.\n")
    await screen.open(changed)
    guard case .refused(let line) = screen.state else { return XCTFail("a changed file") }
    XCTAssertTrue(line.hasSuffix("(changed)."), line)
    screen.dismiss()
    XCTAssertEqual(screen.state, .ready(facts), "what was in use stays in use")
    let store = TrustStore(memory)
    XCTAssertEqual(try store.trust()?.minimumRelease, 7)
    XCTAssertEqual(try store.trust()?.revoked, [String(repeating: "6", count: 64)])
    await screen.open(sound.appendingPathComponent("nothing"))
    guard case .refused = screen.state else { return XCTFail("nothing is there") }
  }

  @MainActor func testAnExpiredOneIsNotOpened() async throws {
    let (sound, key) = try folder("signed")
    defer { try? FileManager.default.removeItem(at: sound) }
    let late = now + 400 * 86_400
    let screen = BundleScreen(Remembered(), now: { late })
    screen.trust(key)
    await screen.open(sound)
    guard case .refused(let line) = screen.state else { return XCTFail("\(screen.state)") }
    XCTAssertTrue(line.contains("it expired at 2027-05-01"), line)
  }

  @MainActor func testDrawingWithoutABase() async throws {
    let screen = DrawScreen(openers: [], finder: Faces(found: []), decoder: MadeUp())
    await screen.draw()
    guard case .failed(let line) = screen.state else { return XCTFail("\(screen.state)") }
    XCTAssertTrue(line.contains("No base is open"), line)
    await screen.open(FileManager.default.temporaryDirectory.appendingPathComponent("nothing"))
    guard case .failed = screen.state else { return XCTFail("\(screen.state)") }
  }

  /// The tiny generator with its signature, as a folder of its own, and the publisher's key.
  private func signedBase() throws -> (URL, Data, String) {
    let item = try vectorJson("app/generator/signed.json")
    let (place, manager) = (temporary(), FileManager.default)
    try manager.copyItem(at: vectors.appendingPathComponent("app/generator"), to: place)
    for name in ["pictures.json", "signed.json"] { try manager.removeItem(at: place.appendingPathComponent(name)) }
    for name in ["manifest.json", "model.sig"] as [ExactText] {
      try Data(item.at("files").data(name)).write(to: place.appendingPathComponent(name.string))
    }
    let key = try XCTUnwrap(item["trust"]?["keys"]?.list?[0].string)
    return (place, Data(key.utf8), sha256Hex(Data(try item.at("files").data("manifest.json"))))
  }

  @MainActor func testABaseThatIsSignedOpensByItsSignatureAlone() async throws {
    let (place, key, id) = try signedBase()
    defer { try? FileManager.default.removeItem(at: place) }
    let memory = Remembered()
    var time = now
    let screen = DrawScreen(openers: [], finder: Faces(found: []), decoder: MadeUp(), memory: memory, now: { time })
    func line() -> String { if case .failed(let line) = screen.state { line } else { "\(screen.state)" } }
    await screen.open(place)
    XCTAssertTrue(line().contains("trusts no key"), line())
    try TrustStore(memory).take(key)
    await screen.open(place)
    XCTAssertEqual(screen.origin, "Release 7 of small, signed by the key 30a4972ea84f73f9.")
    XCTAssertEqual(screen.plugins, ["canny"])
    let unet = place.appendingPathComponent("unet/guided_unet.fp32.onnx")
    var bytes = try Data(contentsOf: unet)
    bytes[30] ^= 1
    try bytes.write(to: unet)
    await screen.open(place)
    XCTAssertTrue(line().hasSuffix("was changed (changed)."), line())
    bytes[30] ^= 1
    try bytes.write(to: unet)
    time = 1_809_129_600
    await screen.open(place)
    XCTAssertTrue(line().contains("it expired at 2027-05-01"), line())
    time = now
    let hint = try PublicKey(pem: String(decoding: key, as: UTF8.self)).hint
    memory["seen \(hint) small"] = Data(canonical(Trust(keys: [], name: "small", superseded: [id]).memory))
    await screen.open(place)
    XCTAssertTrue(line().hasSuffix("(superseded)."), line())
    try FileManager.default.removeItem(at: place.appendingPathComponent("model.sig"))
    await screen.open(place)
    XCTAssertEqual(screen.origin, "Nobody signed it; its files match pipeline.json.")
  }

  func testAHeadlessBenchmark() throws {
    let container = URL(fileURLWithPath: "/container")
    XCTAssertNil(try HeadlessBench.folder(["app"], container: container))
    XCTAssertEqual(
      try HeadlessBench.folder(["app", "--benchmark", "Documents/bench"], container: container)?.path, "/container/Documents/bench")
    for wrong in ["../x", "/etc", "a/../b", ""] {
      XCTAssertThrowsError(try HeadlessBench.folder(["app", "--benchmark", wrong], container: container), wrong)
    }
    let folder = try benchFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let clock = Clock()
    try HeadlessBench.run(folder, openers: [DoublerOpener(clock: clock)], platform: Platform(clock))
    let report = try looseJson(Data(contentsOf: folder.appendingPathComponent("report.json")))
    XCTAssertEqual(report["schema"], .text("unplug-bench/1"))
    XCTAssertEqual(try report.items("rows").count, 1)
    try Data("{}".utf8).write(to: folder.appendingPathComponent("plan.json"))
    XCTAssertThrowsError(try HeadlessBench.run(folder, openers: [], platform: Platform(clock)))
    let told = try String(contentsOf: folder.appendingPathComponent(HeadlessBench.failed), encoding: .utf8)
    XCTAssertTrue(told.hasPrefix("plan.json: it is not a plan of unplug-bench-plan/1. "), told)
  }

  func testAFolderOfAMac() throws {
    let folder = try benchFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let row = try ParityRun(folder: folder, openers: [DoublerOpener(clock: Clock())]).run().items("rows")[0]
    XCTAssertEqual(try row.words("status"), "pass")
    XCTAssertEqual(row["exact"], .bool(true))
    let raw = [UInt8](try Data(contentsOf: folder.appendingPathComponent("outputs/0/0-y.f32")))
    XCTAssertEqual(UInt32.read(raw[...]).map { Float(bitPattern: $0) }, [2, 6])
    let off = try ParityRun(folder: folder, openers: [DoublerOpener(offset: 1, clock: Clock())]).run().items("rows")[0]
    XCTAssertEqual(try off.words("status"), "fail")
    let none = try ParityRun(folder: folder, openers: []).run().items("rows")[0]
    XCTAssertTrue(try none.words("reason").contains("Run this on a Mac"))
  }

  func testHalves() {
    XCTAssertEqual(
      [0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000, 0x3555].map { float(half: UInt16($0)) }, [1, -2, 0x1p-24, 65504, -0.0, 0.33325195])
    XCTAssertTrue(float(half: 0x7e00).isNaN)
    XCTAssertEqual(float(half: 0xfc00), -.infinity)
    var seen: [Int] = []
    forEachPlace([2, 2], [8, 1]) { _, place in seen.append(place) }
    XCTAssertEqual(seen, [0, 1, 8, 9])
  }
}
