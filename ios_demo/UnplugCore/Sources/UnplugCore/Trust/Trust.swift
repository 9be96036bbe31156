import Foundation

/// A trusted key of P-256.
public struct PublicKey: Equatable, Sendable {
  /// x and y.
  let point: [UInt8]
  /// SHA-256 of its text form in lines of 64: what a signature names it by.
  public let hint: String

  private static let head: [UInt8] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d,
    0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
  ]

  /// - Parameter pem: the text that `unplug bundle keygen` writes.
  public init(pem: String) throws {
    let (begin, end) = ("-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----")
    let wrong = Failure("The trusted key", "it is not a public key of P-256 in PEM form", "Take the .pub file of unplug bundle keygen")
    let body = pem.replacingOccurrences(of: begin, with: "").replacingOccurrences(of: end, with: "")
    let letters = body.utf8.filter { !" \n\r\t".utf8.contains($0) }
    guard pem.utf8.count < 1000, let der = strictBase64(Array(letters)), der.count == 91, der.starts(with: PublicKey.head) else {
      throw wrong
    }
    point = Array(der[27...])
    let text = Array(base64(der).utf8)
    let lines = stride(from: 0, to: text.count, by: 64).map { String(decoding: text[$0..<min($0 + 64, text.count)], as: UTF8.self) }
    hint = sha256Hex(Data(([begin] + lines + [end, ""]).joined(separator: "\n").utf8))
  }
}

/// What a reader knows before it opens a bundle, `unplug-trust/1`.
public struct Trust: Sendable {
  public var keys: [PublicKey]
  public var name: String?
  public var minimumRelease: Int
  public var revoked: Set<String>
  public var superseded: Set<String>

  public init(
    keys: [PublicKey], name: String? = nil, minimumRelease: Int = 1, revoked: Set<String> = [], superseded: Set<String> = []
  ) {
    (self.keys, self.name, self.minimumRelease) = (keys, name, minimumRelease)
    (self.revoked, self.superseded) = (revoked, superseded)
  }

  /// - Parameter file: a public key in PEM form, or `unplug-trust/1` as JSON.
  public init(file: Data) throws {
    guard file.count <= 1 << 20 else { throw Failure("The trust file", "it is larger than a megabyte") }
    let text = String(decoding: file, as: UTF8.self)
    if text.contains("-----BEGIN PUBLIC KEY-----"), !text.contains("{") {
      self.init(keys: [try PublicKey(pem: text)])
      return
    }
    try self.init(json: strictJson(file))
  }

  init(json: Json) throws {
    let wrong = Failure("The trust file", "it is neither a public key nor unplug-trust/1", "Take the file that the publisher gave")
    guard let keys = json["keys"]?.list, keys.count <= 100 else { throw wrong }
    func digests(_ key: ExactText) throws -> Set<String> {
      guard let items = (json[key] ?? .list([])).list else { throw wrong }
      return Set(
        try items.map { item in
          guard let text = item.text, isDigest(text) else { throw wrong }
          return text.string
        })
    }
    let known = try keys.map { item in
      guard let pem = item.string else { throw wrong }
      return try PublicKey(pem: pem)
    }
    self.init(
      keys: known, name: json["name"]?.string, minimumRelease: json["minimum_release"]?.int ?? 1,
      revoked: try digests("revoked"), superseded: try digests("superseded"))
  }

  /// What is known once a verified bundle was taken into use: nothing older, and nothing that it takes back.
  public func having(seen publication: Publication) -> Trust {
    var next = self
    next.name = publication.name
    next.minimumRelease = max(minimumRelease, publication.release)
    next.superseded.formUnion(publication.supersedes)
    next.revoked.formUnion(publication.revokes)
    return next
  }

  /// As `unplug-trust/1`, without the keys: what an app remembers between two starts.
  public var memory: Json {
    .object([
      "minimum_release": .number(Double(minimumRelease)), "name": name.map { .text(ExactText($0)) } ?? .null,
      "revoked": .list(revoked.sorted().map { .text(ExactText($0)) }),
      "superseded": .list(superseded.sorted().map { .text(ExactText($0)) }),
    ])
  }
}

/// 64 lower-case hexadecimal digits.
func isDigest(_ text: ExactText) -> Bool {
  text.utf8.count == 64 && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
}
