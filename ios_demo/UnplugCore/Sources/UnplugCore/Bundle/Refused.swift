/// Why a bundle must not be used: the word for it, the same in every language (docs/formats.md).
public enum Verdict: String, Sendable, CaseIterable {
  case archive, link, collision, unsigned, envelope, certificate, statement, excluded, manifest, expired, revoked, superseded
  case downgraded, missing, unlisted, changed
  case tooMany = "too-many"
  case unsafeName = "unsafe-name"
  case noBundle = "no-bundle"
  case tooLarge = "too-large"
  case wrongType = "wrong-type"
  case unknownKey = "unknown-key"
  case badSignature = "bad-signature"
  case wrongVersion = "wrong-version"
  case anotherProduct = "another-product"
  case wrongSize = "wrong-size"
}

/// A bundle that must not be used.
public struct Refused: Error, Equatable, CustomStringConvertible, Sendable {
  public let verdict: Verdict
  public let why: String

  init(_ verdict: Verdict, _ why: String) {
    self.verdict = verdict
    self.why = Failure.plain(why)
  }

  public var description: String { "Do not use this bundle: \(why) (\(verdict.rawValue))." }
}

func need(_ holds: Bool, _ verdict: Verdict, _ why: @autoclosure () -> String) throws {
  if !holds { throw Refused(verdict, why()) }
}
