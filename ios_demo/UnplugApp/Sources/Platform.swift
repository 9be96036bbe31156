import Foundation
import UIKit
import UnplugCore

/// `UserDefaults` as the app's memory.
@MainActor
final class DefaultsMemory: Memory {
  subscript(name: String) -> Data? {
    get { UserDefaults.standard.data(forKey: "unplug.\(name)") }
    set { UserDefaults.standard.set(newValue, forKey: "unplug.\(name)") }
  }
}

/// This phone, as the benchmark asks for it.
final class PhonePlatform: BenchPlatform {
  let device: String
  let system: String
  let emulated: Bool

  init() {
    let environment = ProcessInfo.processInfo.environment
    var facts = utsname()
    uname(&facts)
    let machine = withUnsafeBytes(of: &facts.machine) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    emulated = environment["SIMULATOR_MODEL_IDENTIFIER"] != nil
    device = environment["SIMULATOR_MODEL_IDENTIFIER"] ?? machine
    system = "iOS \(ProcessInfo.processInfo.operatingSystemVersionString)"
  }

  func state() -> DeviceState {
    let thermal =
      switch ProcessInfo.processInfo.thermalState {
      case .nominal: "nominal"
      case .fair: "fair"
      case .serious: "serious"
      case .critical: "critical"
      @unknown default: "unknown"
      }
    return DeviceState(thermal: thermal)
  }

  func clock() -> Double { Double(DispatchTime.now().uptimeNanoseconds) / 1e9 }
}
