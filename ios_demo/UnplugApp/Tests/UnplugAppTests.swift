import CoreGraphics
import Foundation
import ImageIO
import UIKit
import UniformTypeIdentifiers
import UnplugCore
import UnplugCoreML
import XCTest

@testable import UnplugApp

/// What only Apple's frameworks can show; everything else is tested in UnplugCore.
final class UnplugAppTests: XCTestCase {
  /// Four pixels in a row, each of another colour.
  private let picture = Picture(width: 4, height: 1, rgb: [255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255])

  private func encoded(_ type: UTType, orientation: Int = 1, _ picture: Picture) throws -> Data {
    let data = NSMutableData()
    guard let target = CGImageDestinationCreateWithData(data as CFMutableData, type.identifier as CFString, 1, nil) else {
      throw XCTSkip("this system writes no \(type.identifier)")
    }
    let properties = NSDictionary(dictionary: [kCGImagePropertyOrientation: orientation])
    CGImageDestinationAddImage(target, try XCTUnwrap(picture.cgImage), properties as CFDictionary)
    guard CGImageDestinationFinalize(target) else { throw XCTSkip("this system writes no \(type.identifier)") }
    return Data(referencing: data)
  }

  func testAPictureSurvivesCoreGraphics() throws {
    let data = try encoded(.png, picture)
    XCTAssertEqual(try Picture(photograph: data, SystemPhotographs()), picture, "red stays red: RGB, not BGR")
  }

  func testAPhotographIsTurnedUpright() throws {
    for orientation in 1...8 {
      let data = try encoded(.png, orientation: orientation, picture)
      XCTAssertEqual(SystemPhotographs().facts(data)?.orientation, orientation)
      XCTAssertEqual(try Picture(photograph: data, SystemPhotographs()), picture.turned(orientation), "\(orientation)")
    }
  }

  func testHeicIsRead() throws {
    let grey = Picture(width: 64, height: 32, rgb: [UInt8](repeating: 128, count: 3 * 64 * 32))
    let found = try Picture(photograph: encoded(.heic, orientation: 6, grey), SystemPhotographs())
    XCTAssertEqual([found.width, found.height], [32, 64])
    XCTAssertLessThan(abs(Int(found.rgb[0]) - 128), 8)
  }

  /// A PNG that says 10,000 by 10,000 pixels and has none of them.
  func testAHundredMegapixels() {
    let head: [UInt8] = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52]
    let data = Data(head + [0, 0, 0x27, 0x10, 0, 0, 0x27, 0x10, 8, 2, 0, 0, 0, 0xbc, 0xb6, 0xe0, 0xb6])
    XCTAssertThrowsError(try Picture(photograph: data, SystemPhotographs())) {
      XCTAssertTrue(line(of: $0).hasPrefix("The photograph: "), line(of: $0))
    }
  }

  func testWhatIsNoPhotograph() {
    XCTAssertThrowsError(try Picture(photograph: Data("no picture".utf8), SystemPhotographs())) {
      XCTAssertEqual(line(of: $0), "The photograph: its file is not a picture. Choose a JPEG, PNG or HEIC file.")
    }
  }

  func testVisionFindsNoFaceInGrey() async throws {
    let grey = Picture(width: 256, height: 256, rgb: [UInt8](repeating: 128, count: 3 * 256 * 256))
    let found = try await VisionFaces().faces(grey)
    XCTAssertTrue(found.isEmpty)
  }

  func testThePhoneSaysWhatItIs() {
    let platform = PhonePlatform()
    XCTAssertFalse(platform.device.isEmpty)
    XCTAssertNotNil(platform.state().thermal)
    XCTAssertLessThanOrEqual(platform.clock(), platform.clock())
  }

  func testCoreMLRefusesWhatIsNoModel() throws {
    let place = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).mlpackage")
    try Data("no model".utf8).write(to: place)
    defer { try? FileManager.default.removeItem(at: place) }
    let tensor = #"[{"name":"NAME","shape":[1],"dtype":"float32","layout":"N"}]"#
    let (one, other) = (tensor.replacingOccurrences(of: "NAME", with: "x"), tensor.replacingOccurrences(of: "NAME", with: "y"))
    let spec = try IOSpec(looseJson(Data(#"{"inputs":\#(one),"outputs":\#(other)}"#.utf8)), what: "x")
    XCTAssertThrowsError(try CoreMLOpener().open(place, iospec: spec, delegate: "cpu", threads: 1)) { XCTAssertTrue($0 is Failure) }
  }
}
