import Foundation

/// Every file of a zip archive by its path, for hostile archives: stored and deflated entries, everything bounded, nothing
/// unpacked to disk. A link is a file that holds its text; folder entries are left out.
public enum Zip {
  static let maxBytes = 512 << 20
  static let maxDirectory = 4 << 20

  private struct Entry {
    let name: ExactText
    let method: Int
    let packed: Int
    let size: Int
    let offset: Int
  }

  /// - Throws: `Refused` with the verdict `archive`.
  public static func read(_ data: Data) throws -> [ExactText: Data] {
    let bytes = [UInt8](data)
    var files: [ExactText: Data] = [:]
    for entry in try entries(bytes) {
      try check(Names.isSafe(entry.name), "the zip file names an unsafe path \(entry.name.string.prefix(80))")
      try check(files[entry.name] == nil, "the zip file holds \(entry.name) twice")
      files[entry.name] = Data(try contents(entry, bytes))
    }
    return files
  }

  private static func check(_ holds: Bool, _ why: @autoclosure () -> String) throws { try need(holds, .archive, why()) }

  private static func number(_ bytes: [UInt8], _ at: Int, _ count: Int) -> Int {
    (0..<count).reduce(0) { $0 | Int(bytes[at + $1]) << (8 * $1) }
  }

  /// The directory, which is the last thing in the file: a comment after it could hold a second one.
  private static func entries(_ bytes: [UInt8]) throws -> [Entry] {
    let end = bytes.count - 22
    try check(bytes.count <= maxBytes, "the zip file is larger than \(maxBytes >> 20) MB")
    try check(end >= 0 && number(bytes, max(0, end), 4) == 0x0605_4b50, "this is not a zip file, or it is cut off")
    let (count, length) = (number(bytes, end + 10, 2), number(bytes, end + 12, 4))
    var at = number(bytes, end + 16, 4)
    try check(count <= Names.maxFiles, "the zip file has more than \(Names.maxFiles) entries")
    try check(length <= maxDirectory && at + length == end, "the zip file is damaged, or has a directory that is too large")
    var found: [Entry] = []
    var total = 0
    for _ in 0..<count {
      try check(at + 46 <= end && number(bytes, at, 4) == 0x0201_4b50, "the zip file is damaged")
      let lengths = [28, 30, 32].map { number(bytes, at + $0, 2) }
      let next = at + 46 + lengths.reduce(0, +)
      try check(next <= end, "the zip file is damaged")
      try check(number(bytes, at + 8, 2) & 1 == 0, "the zip file is encrypted")
      guard let name = ExactText(utf8: bytes[(at + 46)..<(at + 46 + lengths[0])]) else {
        throw Refused(.archive, "the zip file names a file in an unknown alphabet")
      }
      let entry = Entry(
        name: name, method: number(bytes, at + 10, 2), packed: number(bytes, at + 20, 4), size: number(bytes, at + 24, 4),
        offset: number(bytes, at + 42, 4))
      total += entry.size
      try check(total <= maxBytes, "the zip file unpacks to more than \(maxBytes >> 20) MB")
      if name.utf8.last != UInt8(ascii: "/") { found.append(entry) }
      at = next
    }
    try check(at == end, "the zip file is damaged")
    return found
  }

  private static func contents(_ entry: Entry, _ bytes: [UInt8]) throws -> [UInt8] {
    let at = entry.offset
    try check(at + 30 <= bytes.count && number(bytes, at, 4) == 0x0403_4b50, "the zip file is damaged")
    let start = at + 30 + number(bytes, at + 26, 2) + number(bytes, at + 28, 2)
    try check(start + entry.packed <= bytes.count, "the zip file is cut off")
    let packed = bytes[start..<(start + entry.packed)]
    switch entry.method {
    case 0:
      try check(entry.packed == entry.size, "the zip file is damaged")
      return Array(packed)
    case 8: return try Inflate.unpack(packed, size: entry.size)
    default: throw Refused(.archive, "the zip file uses the unknown compression method \(entry.method)")
    }
  }
}
