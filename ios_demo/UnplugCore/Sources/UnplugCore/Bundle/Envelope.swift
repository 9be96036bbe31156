import Foundation

/// The signature file, taken apart; steps 3 to 6 of docs/formats.md.
struct Envelope {
  static let payloadType = "application/vnd.in-toto+json"
  private static let mediaType: ExactText = "application/vnd.dev.sigstore.bundle.v0.3+json"

  let payload: [UInt8]
  let signature: [UInt8]
  let hint: String

  /// Step 3.
  init(_ bytes: Data) throws {
    let value = try parsed(bytes, .envelope, "the signature")
    try need(value.hasKeys(["mediaType", "verificationMaterial", "dsseEnvelope"]), .envelope, "the signature is not a Sigstore bundle")
    try need(value["mediaType"]?.text == Envelope.mediaType, .wrongType, "its media type is not \(Envelope.mediaType)")
    hint = try Envelope.keyHint(value["verificationMaterial"]!)
    let inner = value["dsseEnvelope"]!
    try need(inner.hasKeys(["payload", "payloadType", "signatures"]), .envelope, "it holds no DSSE envelope")
    let type = inner["payloadType"]?.text
    try need(type == ExactText(Envelope.payloadType), .wrongType, "its payload is not of the type \(Envelope.payloadType)")
    let signatures = inner["signatures"]?.list ?? []
    try need(signatures.count == 1, .envelope, "it does not hold exactly one signature")
    let one = signatures[0]
    try need(one.hasKeys(["sig"], optional: ["keyid"]), .envelope, "its signature has other fields than DSSE's")
    let id = one["keyid"] ?? .null
    try need(id == .null || id == .text(""), .envelope, "its signature names a second key")
    payload = try Envelope.decoded(inner["payload"])
    signature = try Envelope.decoded(one["sig"])
  }

  private static func keyHint(_ material: Json) throws -> String {
    try need(material.object != nil, .envelope, "it names no key")
    let certified = material["certificate"] != nil || material["x509CertificateChain"] != nil
    try need(!certified, .certificate, "its signer is named by a certificate, and only plain keys are read here")
    try need(material.hasKeys(["publicKey"], optional: ["tlogEntries"]), .envelope, "it names no key, or more than one")
    let log = material["tlogEntries"] ?? .list([])
    try need(log == .list([]), .envelope, "it has entries of a log that nobody checks")
    let key = material["publicKey"]!
    guard key.hasKeys(["hint"]), let hint = key["hint"]?.text, isDigest(hint) else {
      throw Refused(.envelope, "its key is not named by a fingerprint")
    }
    return hint.string
  }

  private static func decoded(_ value: Json?) throws -> [UInt8] {
    guard let text = value?.text, let bytes = strictBase64(text.utf8) else {
      throw Refused(.envelope, "its base64 is not in the one standard spelling")
    }
    return bytes
  }

  /// Steps 4 and 5: the trusted key of that fingerprint made the signature over this payload.
  func check(_ trust: Trust) throws {
    guard let key = trust.keys.first(where: { $0.hint == hint }) else {
      throw Refused(.unknownKey, "it is signed by an unknown key (\(hint.prefix(16)))")
    }
    let type = Envelope.payloadType
    let signed = Data("DSSEv1 \(type.utf8.count) \(type) \(payload.count) ".utf8) + Data(payload)
    let raw = rawSignature(der: signature)
    let holds = raw.map { p256(key: key.point, signature: $0, message: signed) } ?? false
    try need(holds, .badSignature, "its signature is not that of the key it names, over what it holds")
  }

  /// Step 6: SHA-256 of every file by its path, out of the signed statement.
  func statement() throws -> [ExactText: ExactText] {
    let value = try parsed(Data(payload), .statement, "what is signed")
    try need(value.hasKeys(["_type", "subject", "predicateType", "predicate"]), .statement, "what is signed is not an in-toto statement")
    let known =
      value["_type"] == .text("https://in-toto.io/Statement/v1")
      && value["predicateType"] == .text("https://model_signing/signature/v1.0")
    try need(known, .wrongType, "what is signed is a statement of another kind")
    let predicate = value["predicate"]!
    try need(predicate.hasKeys(["resources", "serialization"]), .statement, "its predicate has other fields")
    try Envelope.checkWay(predicate["serialization"]!)
    let listed = try Envelope.resources(predicate["resources"]!)
    var sum: [UInt8] = []
    for (_, digest) in listed { sum += bytes(hex: digest) }
    let expected = Json.text(ExactText(sha256Hex(Data(sum))))
    let subjects = value["subject"]?.list ?? []
    guard subjects.count == 1, let digest = subjects[0]["digest"], digest.hasKeys(["sha256"]), digest["sha256"] == expected else {
      throw Refused(.statement, "the sum over its files is not the one that it names")
    }
    return Dictionary(uniqueKeysWithValues: listed)
  }

  private static func checkWay(_ way: Json) throws {
    let fits = way.hasKeys(["method", "hash_type", "allow_symlinks"], optional: ["ignore_paths"])
    try need(fits, .statement, "it does not say how files were hashed")
    let whole = way["method"] == .text("files") && way["hash_type"] == .text("sha256")
    try need(whole, .excluded, "its files are not hashed whole by SHA-256")
    try need(way["allow_symlinks"] == .bool(false), .excluded, "its signer followed links")
    let ignored = way["ignore_paths"] ?? .list([])
    try need(ignored == .list([]) || ignored == .list([.text(Names.signature)]), .excluded, "its signer left files out")
  }

  private static func resources(_ value: Json) throws -> [(ExactText, ExactText)] {
    guard let resources = value.list, !resources.isEmpty else { throw Refused(.statement, "it lists no files") }
    let listed = try resources.map { item in
      guard let name = item["name"]?.text, item["algorithm"] == .text("sha256"), let digest = item["digest"]?.text, isDigest(digest)
      else { throw Refused(.statement, "it lists no files") }
      return (name, digest)
    }
    try Names.check(listed.map(\.0))
    let rising = zip(listed, listed.dropFirst()).allSatisfy { $0.0 < $1.0 }
    try need(rising, .statement, "its files are not in order")
    return listed
  }
}

func parsed(_ bytes: Data, _ verdict: Verdict, _ what: String) throws -> Json {
  do { return try strictJson(bytes) } catch let error as Failure {
    throw Refused(verdict, "\(what) is not strict JSON (\(error.why))")
  }
}

func bytes(hex text: ExactText) -> [UInt8] {
  let digits = text.utf8.map { $0 < 0x40 ? $0 - 0x30 : $0 - 0x57 }
  return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
