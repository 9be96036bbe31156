import CoreGraphics
import Foundation
import ImageIO
import UnplugCore

/// Photographs by Apple's ImageIO, HEIC among them. Turning them upright and refusing them is UnplugCore's.
struct SystemPhotographs: PhotographDecoder {
  func facts(_ data: Data) -> PhotographFacts? {
    guard let source = CGImageSourceCreateWithData(data as CFData, nil),
      let said = CGImageSourceCopyPropertiesAtIndex(source, 0, nil) as NSDictionary?,
      let width = said[kCGImagePropertyPixelWidth] as? Int, let height = said[kCGImagePropertyPixelHeight] as? Int
    else { return nil }
    return PhotographFacts(width: width, height: height, orientation: said[kCGImagePropertyOrientation] as? Int ?? 1)
  }

  func pixels(_ data: Data) -> Picture? {
    let uncached = NSDictionary(dictionary: [kCGImageSourceShouldCache: false])
    guard let source = CGImageSourceCreateWithData(data as CFData, nil),
      let image = CGImageSourceCreateImageAtIndex(source, 0, uncached as CFDictionary)
    else { return nil }
    return Picture(image)
  }
}

extension Picture {
  /// The picture as the system draws it.
  var cgImage: CGImage? {
    guard let provider = CGDataProvider(data: Data(rgb) as CFData), let space = CGColorSpace(name: CGColorSpace.sRGB) else { return nil }
    return CGImage(
      width: width, height: height, bitsPerComponent: 8, bitsPerPixel: 24, bytesPerRow: 3 * width, space: space,
      bitmapInfo: CGBitmapInfo(rawValue: CGImageAlphaInfo.none.rawValue), provider: provider, decode: nil, shouldInterpolate: false,
      intent: .defaultIntent)
  }

  /// Pixels as they are stored, in 8 bits of sRGB, on black where they are transparent.
  init?(_ image: CGImage) {
    let (width, height) = (image.width, image.height)
    var rgba = [UInt8](repeating: 0, count: 4 * width * height)
    let made = rgba.withUnsafeMutableBytes { bytes -> Bool in
      guard let space = CGColorSpace(name: CGColorSpace.sRGB),
        let context = CGContext(
          data: bytes.baseAddress, width: width, height: height, bitsPerComponent: 8, bytesPerRow: 4 * width, space: space,
          bitmapInfo: CGImageAlphaInfo.noneSkipLast.rawValue)
      else { return false }
      context.draw(image, in: CGRect(x: 0, y: 0, width: width, height: height))
      return true
    }
    guard made else { return nil }
    // In place: a second copy of a large photograph would not fit.
    for place in 0..<width * height {
      for channel in 0..<3 { rgba[3 * place + channel] = rgba[4 * place + channel] }
    }
    rgba.removeLast(width * height)
    self.init(width: width, height: height, rgb: rgba)
  }
}
