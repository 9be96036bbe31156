import Foundation
import XCTest

@testable import UnplugCore

/// A decoder that reads a made-up file: three numbers, and pixels of one colour.
struct MadeUp: PhotographDecoder {
  var found = PhotographFacts(width: 4, height: 3, orientation: 1)
  var stored: Picture?

  func facts(_ data: Data) -> PhotographFacts? { found.width == 0 ? nil : found }
  func pixels(_ data: Data) -> Picture? { stored }
}

let jpeg = Data([0xff, 0xd8, 0xff, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0])

/// What goes wrong on a phone: one clear line each, and nothing lost.
final class BadInputTests: XCTestCase, @unchecked Sendable {
  private func line(_ data: Data, _ decoder: MadeUp = MadeUp(), file: StaticString = #filePath, number: UInt = #line) -> String {
    do {
      _ = try Picture(photograph: data, decoder)
      return "taken"
    } catch { return UnplugCore.line(of: error) }
  }

  func testPhotographsThatCannotBeTaken() {
    let heic = Data([0, 0, 0, 24] + Array("ftypheic".utf8) + [0, 0, 0, 0])
    let large = MadeUp(found: PhotographFacts(width: 11_648, height: 8_736, orientation: 6))
    let absurd = MadeUp(found: PhotographFacts(width: .max, height: 8, orientation: 1))
    for (data, decoder, wanted) in [
      (Data("no picture".utf8), MadeUp(), "The photograph: its file is not a picture. Choose a JPEG, PNG or HEIC file."),
      (Data(), MadeUp(), "The photograph: its file is not a picture. Choose a JPEG, PNG or HEIC file."),
      (
        heic, MadeUp(found: PhotographFacts(width: 0, height: 0, orientation: 1)),
        "The photograph: its HEIC file is damaged, or this device does not read it. Choose another, or save it as JPEG."
      ),
      (jpeg, MadeUp(), "The photograph: its JPEG file is damaged, or this device does not read it. Choose another, or save it as JPEG."),
      (jpeg, large, "The photograph: it has 102 megapixels, and 64 megapixels are the most. Choose a smaller one."),
      (jpeg, absurd, "The photograph: it has far too many pixels, and 64 megapixels are the most. Choose a smaller one."),
      (Data(count: 70 << 20), MadeUp(), "The photograph: it has 70 MB, and 64 are the most. Choose a smaller one."),
    ] { XCTAssertEqual(line(data, decoder), wanted) }
    XCTAssertNil(large.stored, "nothing was decoded")
  }

  func testAPhotographIsTurnedUpright() throws {
    let file = try vectorJson("pictures/turned.json")
    func picture(_ item: Json) throws -> Picture {
      let (width, height) = (try item.whole("width"), try item.whole("height"))
      return Picture(width: width, height: height, rgb: try Inflate.unpack(item.data("rgb")[...], size: 3 * width * height))
    }
    let stored = try picture(file)
    let cases = try file.items("cases")
    for item in cases {
      let facts = PhotographFacts(width: stored.width, height: stored.height, orientation: try item.whole("orientation"))
      XCTAssertEqual(try Picture(photograph: jpeg, MadeUp(found: facts, stored: stored)), try picture(item), "\(facts.orientation)")
    }
    XCTAssertEqual(cases.count, 10)
  }

  func testKindsOfFiles() {
    for (bytes, kind) in [
      ([0x89, 0x50, 0x4e, 0x47], "PNG"), (Array("GIF89a".utf8), "GIF"), (Array("RIFF....WEBP".utf8), "WebP"),
      ([0x49, 0x49, 0x2a, 0], "TIFF"), (Array("....ftypmif1".utf8), "HEIC"), (Array("....ftypavif".utf8), "AVIF"),
    ] as [([UInt8], String)] { XCTAssertEqual(photographKind(Data(bytes)), kind) }
    for text in ["....ftypqt  ", "RIFF....WAVE", "ftyp", "%PDF-1.7 ..."] { XCTAssertNil(photographKind(Data(text.utf8)), text) }
  }

  /// A bundle that says where the eyes belong: a face that cannot be judged gets no answer but a reason.
  @MainActor func testNoFaceOrTwo() async throws {
    let aligned = try verified("app/aligned.json")
    let grey = Picture(width: 40, height: 30, rgb: [UInt8](repeating: 90, count: 3600))
    let black = Picture(width: 40, height: 30, rgb: [UInt8](repeating: 9, count: 3600))
    func face(_ apart: Double) -> FoundFace {
      var outline = FaceOutline()
      outline.eyes = [[SIMD2(8, 9), SIMD2(12, 9)], [SIMD2(8 + apart, 9), SIMD2(12 + apart, 9)]]
      return FoundFace(points: [], outline: outline)
    }
    for (faces, stored, words) in [
      ([], grey, "no face found"), ([face(20), face(20)], grey, "2 faces found"),
      ([FoundFace(points: [SIMD2(1, 1)])], grey, "the eyes of its face were not found"),
      ([face(10)], grey, "the face is too small: 10 pixels between the eyes, and 16 are needed"),
      ([face(20)], black, "the face is too dark"),
    ] {
      let facts = PhotographFacts(width: 40, height: 30, orientation: 1)
      let decoder = MadeUp(found: facts, stored: stored)
      let screen = AgeScreen(openers: [], finder: Faces(found: faces), decoder: decoder, folder: temporary())
      await screen.look(at: jpeg, aligned)
      XCTAssertEqual(screen.state, .failed("The photograph: \(words). Choose one of a single face, near and well lit."))
      XCTAssertNil(screen.seen)
    }
    let bundle = try verified("app/bundle.json")
    let stored = Picture(width: 4, height: 3, rgb: [UInt8](repeating: 9, count: 36))
    let screen = AgeScreen(openers: [], finder: Faces(found: []), decoder: MadeUp(stored: stored), folder: temporary())
    await screen.look(at: nil, bundle)
    XCTAssertEqual(screen.state, .failed("The photograph: the library did not give it. Choose it again, or another."))
    await screen.look(at: jpeg, bundle)
    XCTAssertEqual(screen.state, .failed("The bundle: it holds nothing that this app can run on all. Export it with --to coreml."))
    await screen.look(at: jpeg, nil)
    XCTAssertEqual(screen.state, .failed("The prediction: no bundle is open. Open one first."))
  }

  /// Every verdict that the issue names, by the line on screen; the bundle before stays in use.
  @MainActor func testBundlesThatMustNotBeUsed() async throws {
    for (name, words) in [
      ("no-manifest", "(no-bundle)"), ("signature-stripped", "it is not signed (unsigned)"), ("another-key", "(unknown-key)"),
      ("revoked", "it was revoked (revoked)"),
      ("superseded", "a newer release took its place (superseded)"), ("first-version", "(unsigned)"), ("version-3", "(wrong-version)"),
      ("another-product", "(another-product)"), ("downgraded", "(downgraded)"), ("expired", "(expired)"),
      ("changed-file", "was changed (changed)"), ("zip-bomb-that-lies", "(archive)"),
    ] {
      let (sound, key) = try bundleFolder("signed")
      let (wrong, trust) = try bundleFolder(name)
      defer { for place in [sound, wrong] { try? FileManager.default.removeItem(at: place) } }
      var time = 1_796_083_200
      let screen = BundleScreen(Remembered(), now: { time })
      screen.trust(key)
      await screen.open(sound)
      guard case .ready(let facts) = screen.state else { return XCTFail("\(screen.state)") }
      screen.trust(trust)
      time = try XCTUnwrap(secondsSince1970(ExactText(vectorJson("bundles/\(name).json").words("now"))))
      await screen.open(wrong)
      guard case .refused(let line) = screen.state else { return XCTFail("\(name): \(screen.state)") }
      XCTAssertTrue(line.contains(words) && line.hasPrefix("Do not use this bundle: "), "\(name): \(line)")
      XCTAssertFalse(line.contains("\n"))
      XCTAssertEqual(screen.bundle?.id, facts.id, "what was in use stays in use")
    }
  }

  @MainActor func testTheBundleIsThereAtTheNextStart() async throws {
    let (sound, key) = try bundleFolder("signed")
    let home = temporary()
    defer { for place in [sound, home] { try? FileManager.default.removeItem(at: place) } }
    let (memory, time) = (Remembered(), 1_796_083_200)
    let first = BundleScreen(memory, home: home, now: { time })
    await first.reopen()
    XCTAssertEqual(first.state, .empty, "there is none yet")
    first.trust(key)
    await first.open(sound)
    XCTAssertNil(first.notice)
    let next = BundleScreen(memory, home: home, now: { time })
    await next.reopen()
    XCTAssertEqual(next.bundle?.files, first.bundle?.files)
    XCTAssertEqual(try FileManager.default.contentsOfDirectory(atPath: home.path), [try XCTUnwrap(first.bundle?.id)])
    let late = BundleScreen(memory, home: home, now: { time + 400 * 86_400 })
    await late.reopen()
    guard case .refused(let line) = late.state else { return XCTFail("\(late.state)") }
    XCTAssertTrue(line.contains("(expired)"), line)
  }

  /// A real disk of 64 KiB, which `ios_demo/check` mounts.
  @MainActor func testAFullStorage() async throws {
    guard let disk = ProcessInfo.processInfo.environment["UNPLUG_FULL_DISK"], !disk.isEmpty else {
      throw XCTSkip("UNPLUG_FULL_DISK names no small disk")
    }
    let place = URL(fileURLWithPath: disk)
    let filler = place.appendingPathComponent("filler")
    defer { try? FileManager.default.removeItem(at: filler) }
    while (try? Data(count: 4096).append(to: filler)) != nil {}
    let (sound, key) = try bundleFolder("signed")
    defer { try? FileManager.default.removeItem(at: sound) }
    let screen = BundleScreen(Remembered(), home: place.appendingPathComponent("home"), now: { 1_796_083_200 })
    screen.trust(key)
    await screen.open(sound)
    guard case .ready = screen.state else { return XCTFail("\(screen.state)") }
    let notice = try XCTUnwrap(screen.notice)
    XCTAssertTrue(notice.hasSuffix("it cannot be written, the storage is full. Free some storage and try again."), notice)

    let bundle = try XCTUnwrap(screen.bundle)
    XCTAssertThrowsError(try bundle.write("artifacts", to: place.appendingPathComponent("artifacts"))) {
      XCTAssertEqual(UnplugCore.line(of: $0), "artifacts: it cannot be written, the storage is full. Free some storage and try again.")
    }
    let left = try FileManager.default.contentsOfDirectory(atPath: place.path).filter { !$0.hasPrefix("home") }
    XCTAssertEqual(left, ["filler"], "nothing half written stays")
    let bench = BenchScreen(openers: [DoublerOpener(clock: Clock())], folder: place.appendingPathComponent("bench")) { Platform(Clock()) }
    await bench.run(try verified("app/bundle.json"))
    guard case .failed = bench.state else { return XCTFail("\(bench.state)") }
  }

  func testErrorsOfTheSystem() {
    let underlying = CocoaError(.fileWriteUnknown, userInfo: [NSUnderlyingErrorKey: POSIXError(.ENOSPC)])
    for full in [CocoaError(.fileWriteOutOfSpace), POSIXError(.ENOSPC), POSIXError(.EDQUOT), underlying] as [any Error] {
      XCTAssertTrue(isStorageFull(full), "\(full)")
    }
    let other = UnplugCore.line(of: POSIXError(.EACCES))
    XCTAssertFalse(isStorageFull(POSIXError(.EACCES)))
    XCTAssertTrue(other.hasPrefix("The system: it failed (") && other.hasSuffix("). Try again."), other)
  }

  @MainActor func testKilledInABenchmark() async throws {
    let folder = try benchFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    // The app is gone after the second of three cold starts.
    struct Killed: Error {}
    let clock = Clock()
    let plan = try BenchPlan(Data(contentsOf: folder.appendingPathComponent("plan.json")))
    let benchmark = Benchmark(plan, folder: folder, openers: [DoublerOpener(clock: clock)], platform: Platform(clock))
    var starts = 0
    benchmark.kept = { found in
      starts += 1
      if starts <= 2 { HeadlessBench.keep(found, in: folder) }
    }
    _ = benchmark.run()
    let screen = BenchScreen(openers: [], folder: folder) { Platform(Clock()) }
    screen.recover()
    XCTAssertEqual(
      screen.state,
      .failed("The last benchmark: the app was ended while it ran, what was measured until then is below. Measure again."))
    XCTAssertEqual(screen.points.count, 10)
    XCTAssertEqual(screen.lines.map(\.note), ["2 of 3 cold starts were timed: the rest is to come"])
    XCTAssertNotNil(screen.report)
    XCTAssertFalse(FileManager.default.fileExists(atPath: folder.path))
    let next = BenchScreen(openers: [], folder: folder) { Platform(Clock()) }
    next.recover()
    XCTAssertEqual(next.state, .idle, "it is told once")
    await next.run(nil)
    XCTAssertEqual(next.state, .failed("The benchmark: no bundle is open. Open one first."))
  }
}

extension Data {
  /// Writes after what a file has.
  fileprivate func append(to file: URL) throws {
    if !FileManager.default.fileExists(atPath: file.path) { try Data().write(to: file) }
    let handle = try FileHandle(forWritingTo: file)
    defer { try? handle.close() }
    try handle.seekToEnd()
    try handle.write(contentsOf: self)
  }
}
