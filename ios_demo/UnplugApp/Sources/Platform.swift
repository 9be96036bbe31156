import SwiftUI
import UnplugCore
import Vision

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

/// Faces by Apple's Vision: the box around each.
struct VisionFaces: FaceFinder {
  func faces(_ picture: Picture) async throws -> [[SIMD2<Double>]] {
    guard let image = picture.cgImage else { throw Failure("The photograph", "it cannot be read", "Take another") }
    let request = VNDetectFaceLandmarksRequest()
    try VNImageRequestHandler(cgImage: image, options: [:]).perform([request])
    return (request.results ?? []).map { face in
      // Vision counts from the lower left, in parts of the picture.
      let (box, width, height) = (face.boundingBox, Double(picture.width), Double(picture.height))
      let top = (1 - Double(box.maxY)) * height
      return [
        SIMD2(Double(box.minX) * width, top), SIMD2(Double(box.maxX) * width, top + Double(box.height) * height),
      ]
    }
  }
}

extension Picture {
  /// The picture as the system draws it.
  var cgImage: CGImage? {
    guard let provider = CGDataProvider(data: Data(rgb) as CFData) else { return nil }
    return CGImage(
      width: width, height: height, bitsPerComponent: 8, bitsPerPixel: 24, bytesPerRow: 3 * width, space: CGColorSpaceCreateDeviceRGB(),
      bitmapInfo: CGBitmapInfo(rawValue: CGImageAlphaInfo.none.rawValue), provider: provider, decode: nil, shouldInterpolate: false,
      intent: .defaultIntent)
  }

  /// A photograph, HEIC among them, turned upright and read as 8 bits of sRGB; nothing where it is none, or too large.
  init?(photograph data: Data) {
    guard data.count <= 64 << 20, let image = UIImage(data: data), let source = image.cgImage,
      source.width * source.height <= 64_000_000
    else { return nil }
    let turned = [.left, .leftMirrored, .right, .rightMirrored].contains(image.imageOrientation)
    let (width, height) = turned ? (source.height, source.width) : (source.width, source.height)
    let format = UIGraphicsImageRendererFormat()
    format.scale = 1
    format.opaque = true
    let size = CGSize(width: width, height: height)
    let upright = UIGraphicsImageRenderer(size: size, format: format).image { _ in image.draw(in: CGRect(origin: .zero, size: size)) }
    guard let drawn = upright.cgImage else { return nil }
    var rgba = [UInt8](repeating: 0, count: 4 * width * height)
    let made = rgba.withUnsafeMutableBytes { bytes -> Bool in
      guard let space = CGColorSpace(name: CGColorSpace.sRGB),
        let context = CGContext(
          data: bytes.baseAddress, width: width, height: height, bitsPerComponent: 8, bytesPerRow: 4 * width, space: space,
          bitmapInfo: CGImageAlphaInfo.noneSkipLast.rawValue)
      else { return false }
      context.draw(drawn, in: CGRect(origin: .zero, size: size))
      return true
    }
    guard made else { return nil }
    var rgb = [UInt8](repeating: 0, count: 3 * width * height)
    for place in 0..<width * height {
      for channel in 0..<3 { rgb[3 * place + channel] = rgba[4 * place + channel] }
    }
    self.init(width: width, height: height, rgb: rgb)
  }
}

/// A picture of the core on screen.
struct PictureView: View {
  let picture: Picture
  let label: String

  var body: some View {
    if let image = picture.cgImage {
      Image(decorative: image, scale: 1).resizable().interpolation(.none).scaledToFit().frame(maxWidth: 320)
        .accessibilityLabel(Text(label))
    }
  }
}
