import Foundation

/// What a photograph's file says of itself, before a pixel of it is decoded.
public struct PhotographFacts: Equatable, Sendable {
  /// The size as the pixels are stored, before they are turned.
  public let width: Int
  public let height: Int
  /// EXIF's, 1 to 8; any other is read as 1, upright.
  public let orientation: Int

  public init(width: Int, height: Int, orientation: Int) {
    (self.width, self.height, self.orientation) = (width, height, orientation)
  }
}

/// Decodes photographs; the app's is Apple's ImageIO.
public protocol PhotographDecoder: Sendable {
  /// Nothing where the file is none that the system reads.
  func facts(_ data: Data) -> PhotographFacts?
  /// The pixels as they are stored, 8 bits of sRGB; nothing where they cannot be decoded.
  func pixels(_ data: Data) -> Picture?
}

extension Picture {
  /// The most megapixels of a photograph: more would not fit into a phone's memory together with a model.
  public static let mostMegapixels = 64
  public static let mostMegabytes = 64

  /// A photograph, turned upright.
  ///
  /// - Throws: `Failure`, one line, for what is not a picture, is damaged, or too large; nothing is decoded before its size is known.
  public init(photograph data: Data, _ decoder: any PhotographDecoder) throws {
    let what = "The photograph"
    guard data.count <= Picture.mostMegabytes << 20 else {
      throw Failure(what, "it has \(data.count >> 20) MB, and \(Picture.mostMegabytes) are the most", "Choose a smaller one")
    }
    guard let kind = photographKind(data) else {
      throw Failure(what, "its file is not a picture", "Choose a JPEG, PNG or HEIC file")
    }
    let unread = Failure(what, "its \(kind) file is damaged, or this device does not read it", "Choose another, or save it as JPEG")
    guard let facts = decoder.facts(data), facts.width > 0, facts.height > 0 else { throw unread }
    let (pixels, overflow) = facts.width.multipliedReportingOverflow(by: facts.height)
    guard !overflow, pixels <= Picture.mostMegapixels * 1_000_000 else {
      let size = overflow ? "far too many pixels" : "\((pixels + 500_000) / 1_000_000) megapixels"
      throw Failure(what, "it has \(size), and \(Picture.mostMegapixels) megapixels are the most", "Choose a smaller one")
    }
    guard let stored = decoder.pixels(data), (stored.width, stored.height) == (facts.width, facts.height) else { throw unread }
    self = stored.turned(facts.orientation)
  }

  /// Upright, as EXIF's orientation says that the stored pixels must be turned; as Pillow's `exif_transpose`.
  public func turned(_ orientation: Int) -> Picture {
    guard (2...8).contains(orientation) else { return self }
    let across = orientation >= 5
    let (wide, high) = across ? (height, width) : (width, height)
    let mirrored = [2, 3, 7, 8].contains(orientation)  // the stored x falls
    let flipped = [3, 4, 6, 7].contains(orientation)  // the stored y falls
    var found = [UInt8](repeating: 0, count: rgb.count)
    for y in 0..<high {
      for x in 0..<wide {
        let (along, down) = across ? (y, x) : (x, y)
        let from = 3 * ((flipped ? height - 1 - down : down) * width + (mirrored ? width - 1 - along : along))
        let to = 3 * (y * wide + x)
        for channel in 0..<3 { found[to + channel] = rgb[from + channel] }
      }
    }
    return Picture(width: wide, height: high, rgb: found)
  }
}

/// What kind of picture a file is by its first bytes; nothing where it is none.
func photographKind(_ data: Data) -> String? {
  let bytes = [UInt8](data.prefix(12))
  func begins(_ wanted: [UInt8], at place: Int = 0) -> Bool {
    bytes.count >= place + wanted.count && Array(bytes[place..<place + wanted.count]) == wanted
  }
  if begins([0xff, 0xd8, 0xff]) { return "JPEG" }
  if begins([0x89] + Array("PNG".utf8)) { return "PNG" }
  if begins(Array("GIF8".utf8)) { return "GIF" }
  if begins(Array("RIFF".utf8)), begins(Array("WEBP".utf8), at: 8) { return "WebP" }
  if begins([0x49, 0x49, 0x2a, 0x00]) || begins([0x4d, 0x4d, 0x00, 0x2a]) { return "TIFF" }
  if begins(Array("ftyp".utf8), at: 4) {
    let brand = String(decoding: bytes.dropFirst(8), as: UTF8.self)
    if ["heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"].contains(brand) { return "HEIC" }
    if brand == "avif" { return "AVIF" }
  }
  return nil
}
