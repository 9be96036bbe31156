import Foundation

/// Every plain file below a folder by its path, read whole; links, pipes and devices are refused, not followed.
///
/// - Parameter mapped: files over 8 MB are mapped instead, for folders larger than any zip file: each use checks the file again.
/// - Throws: `Refused` (`link`, `too-many`, `too-large`), `Failure` where nothing can be read.
public func readFolder(_ folder: URL, mapped: Bool = false) throws -> [ExactText: Data] {
  let most = mapped ? 8 << 30 : Zip.maxBytes
  let manager = FileManager.default
  var (found, waiting) = ([ExactText: Data](), [""])
  var (seen, total) = (0, 0)
  while let inner = waiting.popLast() {
    let here = inner.isEmpty ? folder : folder.appendingPathComponent(inner)
    guard let names = try? manager.contentsOfDirectory(atPath: here.path) else {
      throw Failure("The bundle", "its folder cannot be read", "Copy it here again")
    }
    seen += names.count
    try need(seen <= 2 * Names.maxFiles, .tooMany, "it has more than \(Names.maxFiles) files")
    for name in names.sorted() {
      let path = inner.isEmpty ? name : "\(inner)/\(name)"
      let place = folder.appendingPathComponent(path)
      let facts = try? manager.attributesOfItem(atPath: place.path)
      switch facts?[.type] as? FileAttributeType {
      case .typeDirectory?: waiting.append(path)
      case .typeRegular?:
        let size = (facts?[.size] as? NSNumber)?.intValue ?? 0
        total += size
        try need(total <= most, .tooLarge, "it is larger than \(most >> 20) MB")
        guard let data = try? Data(contentsOf: place, options: mapped && size > maxSmall ? .mappedIfSafe : []) else {
          throw Failure("The bundle", "\(path) cannot be read", "Copy it here again")
        }
        found[ExactText(path)] = data
      default: throw Refused(.link, "\(path) is a link, or not a plain file")
      }
    }
  }
  return found
}

extension Verified {
  /// The files below a folder of the bundle, an `.mlpackage` say, written to a folder on disk; see `write(_:of:to:)`.
  public func write(_ prefix: String, to target: URL) throws { try UnplugCore.write(prefix, of: files, to: target) }
}

/// Writes the files below a folder of some that were read, whole or not at all.
///
/// - Parameters:
///   - prefix: the path of a file, or of a folder; nothing for all of them.
///   - target: must not exist; nothing is written outside it.
func write(_ prefix: String, of files: [ExactText: Data], to target: URL) throws {
  let manager = FileManager.default
  let temporary = target.deletingLastPathComponent().appendingPathComponent(".\(UUID().uuidString)")
  defer { try? manager.removeItem(at: temporary) }
  do {
    if let data = files[ExactText(prefix)] {
      try data.write(to: temporary)
    } else {
      let folder = prefix.isEmpty ? "" : "\(prefix)/"
      let inside = files.filter { $0.key.hasPrefix(folder) }
      guard !inside.isEmpty else { throw Failure(prefix, "the bundle has no such file") }
      for (name, data) in inside {
        let path = temporary.appendingPathComponent(String(name.string.dropFirst(folder.count)))
        try manager.createDirectory(at: path.deletingLastPathComponent(), withIntermediateDirectories: true)
        try data.write(to: path)
      }
    }
    try manager.moveItem(at: temporary, to: target)
  } catch let error as Failure { throw error } catch { throw unwritten(prefix.isEmpty ? "The bundle" : prefix, error) }
}

/// SHA-256 over the sorted (path, SHA-256) pairs of the files below a folder, and their bytes; as unplug.core.sha256_tree.
public func treeDigest(_ folder: URL) throws -> (sha256: String, bytes: Int) {
  let files = try readFolder(folder)
  let sorted = files.keys.sorted { $0.parts.lexicographicallyPrecedes($1.parts) { $0.lexicographicallyPrecedes($1) } }
  let text = sorted.map { "\($0)\0\(sha256Hex(files[$0]!))\n" }.joined()
  return (sha256Hex(Data(text.utf8)), files.values.reduce(0) { $0 + $1.count })
}
