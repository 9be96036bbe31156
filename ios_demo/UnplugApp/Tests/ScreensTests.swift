import CoreGraphics
import SwiftUI
import UIKit
import UnplugCore
import XCTest

@testable import UnplugApp

/// Every screen is laid out upright and turned, light and dark, in ordinary and in the largest letters.
@MainActor
final class ScreensTests: XCTestCase {
  private func show(_ screen: some View, file: StaticString = #filePath, line: UInt = #line) {
    let (phone, turned) = (CGSize(width: 390, height: 844), CGSize(width: 844, height: 390))
    for size in [phone, turned] {
      for letters in [DynamicTypeSize.large, .accessibility5] {
        for scheme in [ColorScheme.light, .dark] {
          let content = screen.environment(\.dynamicTypeSize, letters).environment(\.colorScheme, scheme)
          let host = UIHostingController(rootView: content)
          let window = UIWindow(frame: CGRect(origin: .zero, size: size))
          window.rootViewController = host
          window.makeKeyAndVisible()
          host.view.layoutIfNeeded()
          XCTAssertEqual(host.view.bounds.size, size, file: file, line: line)
        }
      }
    }
  }

  func testEveryScreen() {
    let model = AppModel()
    XCTAssertNil(model.headless, "no launch argument asks for a benchmark")
    show(AgeView(screen: model.age, bundle: model.bundle))
    show(DrawView(screen: model.draw))
    show(ForgetView(screen: model.forget, bundle: model.bundle))
    show(BenchView(screen: model.bench, bundle: model.bundle))
    show(BundleView(screen: model.bundle))
    show(HeadlessView(text: "The benchmark runs; keep this app in front."))
    show(FailureView(text: "The prediction: no bundle is open. Open one first."))
  }

  func testWhatGoesWrongIsOnScreen() async {
    let model = AppModel()
    await model.age.look(at: nil, nil)
    XCTAssertEqual(model.age.state, .failed("The prediction: no bundle is open. Open one first."))
    show(AgeView(screen: model.age, bundle: model.bundle))
    await model.draw.draw()
    guard case .failed = model.draw.state else { return XCTFail("\(model.draw.state)") }
    show(DrawView(screen: model.draw))
  }
}
