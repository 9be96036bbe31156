import Foundation

/// A bundle that its signer made and that may be used. The bytes in `files` are the ones that were hashed: use these.
public struct Verified: Sendable {
  /// SHA-256 of its manifest.
  public let id: String
  /// The key's fingerprint.
  public let hint: String
  public let publication: Publication
  public let manifest: Json
  public let files: [ExactText: Data]
}

/// What a bundle holds, by the schema of its manifest.
public enum Schema: String, Sendable {
  case models = "unplug-bundle/2"
  /// A base of exported files, with `pipeline.json`.
  case generator = "unplug-generator-bundle/1"
}

/// The verifier of signed bundles, step by step as docs/formats.md has it: the first step that fails gives the verdict.
///
/// Nothing of a bundle is believed before its signature, cheap steps come first, and no file is hashed before its size.
///
/// - Parameters:
///   - files: every file by its path, as `Zip.read` or `readFolder` gives them.
///   - trust: the keys and releases that the reader knows.
///   - now: seconds since 1970.
///   - schema: the schema of the manifest.
/// - Throws: `Refused`.
public func verify(_ files: [ExactText: Data], _ trust: Trust, now: Int, schema: Schema = .models) throws -> Verified {
  try need(files.count <= Names.maxFiles + 2, .tooMany, "it has more than \(Names.maxFiles) files")  // 1
  try Names.check(files.keys.sorted())
  guard let raw = files[Names.manifest] else { throw Refused(.noBundle, "there is no \(Names.manifest) in it") }  // 2
  guard let signature = files[Names.signature] else { throw Refused(.unsigned, "it is not signed") }
  try need(signature.count <= maxSmall, .tooLarge, "\(Names.signature) is larger than \(maxSmall) bytes")
  let envelope = try Envelope(signature)  // 3
  try envelope.check(trust)  // 4 and 5
  let digests = try envelope.statement()  // 6
  try need(raw.count <= maxSmall, .tooLarge, "\(Names.manifest) is larger than \(maxSmall) bytes")
  let id = sha256Hex(raw)  // 7
  try need(digests[Names.manifest] == ExactText(id), .changed, "\(Names.manifest) is not the one that was signed")
  let manifest = try readManifest(raw, digests, schema)
  try checkAllowed(id, manifest.said, trust, now)  // 8
  try checkContents(files, digests, manifest.sizes)  // 9
  return Verified(id: id, hint: envelope.hint, publication: manifest.said, manifest: manifest.value, files: files)
}

let maxSmall = 8 << 20

/// Step 7: the canonical manifest, which says of the same files what the signed statement says.
private func readManifest(_ raw: Data, _ digests: [ExactText: ExactText], _ schema: Schema) throws
  -> (value: Json, said: Publication, sizes: [ExactText: Int])
{
  let value = try parsed(raw, .manifest, "\(Names.manifest)")
  try need(canonical(value) == Array(raw), .manifest, "\(Names.manifest) is in another spelling than RFC 8785's")
  try need(value["schema"] == .text(ExactText(schema.rawValue)), .wrongVersion, "\(Names.manifest) is not of the schema \(schema.rawValue)")
  guard let listed = value["files"]?.object, let said = Publication(value["publication"]) else {
    throw Refused(.manifest, "\(Names.manifest) does not say what was published, or lists no files")
  }
  var sizes: [ExactText: Int] = [:]
  for (name, entry) in listed {
    guard entry.hasKeys(["sha256", "bytes"]), let digest = entry["sha256"]?.text, let size = entry["bytes"]?.int, size >= 0 else {
      throw Refused(.manifest, "\(Names.manifest) lists no files")
    }
    let same = name != Names.manifest && digests[name] == digest
    try need(same, .manifest, "\(Names.manifest) and the signature list different files")
    sizes[name] = size
  }
  try need(sizes.count + 1 == digests.count, .manifest, "\(Names.manifest) and the signature list different files")
  return (value, said, sizes)
}

/// Step 8: the product that is expected, not expired, not taken back, not older than what was seen.
func checkAllowed(_ id: String, _ said: Publication, _ trust: Trust, _ now: Int) throws {
  if let name = trust.name, ExactText(name) != ExactText(said.name) {
    throw Refused(.anotherProduct, "it is \(said.name), and \(name) is expected")
  }
  if let expires = said.expires, let end = secondsSince1970(ExactText(expires)), now >= end {
    throw Refused(.expired, "it expired at \(expires)")
  }
  try need(!trust.revoked.contains(id), .revoked, "it was revoked")
  try need(!trust.superseded.contains(id), .superseded, "a newer release took its place")
  let older = "it is release \(said.release), older than \(trust.minimumRelease)"
  try need(said.release >= trust.minimumRelease, .downgraded, older)
}

/// Step 9: all files that are listed and no others, sizes before hashes.
private func checkContents(
  _ files: [ExactText: Data], _ digests: [ExactText: ExactText], _ sizes: [ExactText: Int]
) throws {
  for name in digests.keys.sorted() { try need(files[name] != nil, .missing, "\(name) is missing") }
  for name in files.keys.sorted() {
    try need(digests[name] != nil || name == Names.signature, .unlisted, "\(name) is not in \(Names.manifest)")
  }
  for name in sizes.keys.sorted() { try need(files[name]!.count == sizes[name], .wrongSize, "\(name) was changed") }
  for name in sizes.keys.sorted() {
    let found = ExactText(sha256Hex(files[name]!))
    try need(found == digests[name], .changed, "\(name) was changed")
  }
}
