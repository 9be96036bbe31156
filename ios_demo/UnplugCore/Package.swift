// swift-tools-version: 6.0
import PackageDescription

let package = Package(
  name: "UnplugCore",
  platforms: [.iOS(.v17), .macOS(.v14)],
  products: [
    .library(name: "UnplugCore", targets: ["UnplugCore"]),
  ],
  targets: [
    .target(name: "UnplugCore"),
    .testTarget(name: "UnplugCoreTests", dependencies: ["UnplugCore"]),
  ],
  swiftLanguageModes: [.v6]
)
