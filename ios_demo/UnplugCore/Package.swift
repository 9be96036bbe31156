// swift-tools-version: 6.0
import PackageDescription

let package = Package(
  name: "UnplugCore",
  platforms: [.iOS(.v17), .macOS(.v14)],
  products: [
    .library(name: "UnplugCore", targets: ["UnplugCore"]),
    .library(name: "UnplugOnnx", targets: ["UnplugOnnx"]),
    .library(name: "UnplugCoreML", targets: ["UnplugCoreML"]),
    .executable(name: "unplug-coreml", targets: ["unplug-coreml"]),
  ],
  targets: [
    // What CryptoKit does on Apple's systems, for the check on Linux: no app holds it.
    .target(name: "PlainCryptography"),
    .target(name: "UnplugCore", dependencies: [.target(name: "PlainCryptography", condition: .when(platforms: [.linux]))]),
    .target(name: "UnplugOnnx", dependencies: ["UnplugCore"]),
    .target(name: "UnplugCoreML", dependencies: ["UnplugCore"]),
    .executableTarget(name: "unplug-coreml", dependencies: ["UnplugCore", "UnplugCoreML"]),
    .testTarget(name: "UnplugCoreTests", dependencies: ["UnplugCore", "UnplugOnnx"]),
  ],
  swiftLanguageModes: [.v6]
)
