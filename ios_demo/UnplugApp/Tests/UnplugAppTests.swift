import UnplugCore
import UnplugCoreML
import XCTest

@testable import UnplugApp

/// What only Apple's frameworks can show; everything else is tested in UnplugCore.
final class UnplugAppTests: XCTestCase {
  func testAPictureSurvivesCoreGraphics() throws {
    let picture = Picture(width: 2, height: 1, rgb: [255, 0, 0, 0, 0, 255])
    let image = UIImage(cgImage: try XCTUnwrap(picture.cgImage))
    let data = try XCTUnwrap(image.pngData())
    XCTAssertEqual(Picture(photograph: data), picture, "red stays red: RGB, not BGR")
  }

  func testWhatIsNoPhotograph() { XCTAssertNil(Picture(photograph: Data("no picture".utf8))) }

  func testThePhoneSaysWhatItIs() {
    let platform = PhonePlatform()
    XCTAssertFalse(platform.device.isEmpty)
    XCTAssertNotNil(platform.state().thermal)
    XCTAssertLessThanOrEqual(platform.clock(), platform.clock())
  }

  func testCoreMLRefusesWhatIsNoModel() throws {
    let place = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).mlpackage")
    try Data("no model".utf8).write(to: place)
    let spec = try IOSpec(
      looseJson(
        Data(
          #"{"inputs":[{"name":"x","shape":[1],"dtype":"float32","layout":"N"}],"outputs":[{"name":"y","shape":[1],"dtype":"float32","layout":"N"}]}"#
            .utf8)), what: "x")
    XCTAssertThrowsError(try CoreMLOpener().open(place, iospec: spec, delegate: "cpu", threads: 1)) { XCTAssertTrue($0 is Failure) }
  }
}
