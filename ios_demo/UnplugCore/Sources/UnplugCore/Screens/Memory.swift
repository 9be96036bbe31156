import Foundation

/// What an app keeps between two starts, small values by name.
@MainActor
public protocol Memory: AnyObject {
  subscript(name: String) -> Data? { get set }
}

/// Trust that an app was given, and what it has seen since.
@MainActor
public final class TrustStore {
  private let memory: any Memory
  private static let (given, seen) = ("trust", "seen")

  public init(_ memory: any Memory) { self.memory = memory }

  /// Takes a public key or an `unplug-trust/1`; what was seen of other products is forgotten.
  public func take(_ file: Data) throws {
    _ = try Trust(file: file)
    memory[TrustStore.given] = file
    memory[TrustStore.seen] = nil
  }

  /// Nothing where the app was given none yet.
  public func trust() throws -> Trust? {
    guard let file = memory[TrustStore.given] else { return nil }
    var trust = try Trust(file: file)
    if let known = try remembered(TrustStore.seen) {
      trust.minimumRelease = max(trust.minimumRelease, known.minimumRelease)
      trust.revoked.formUnion(known.revoked)
      trust.superseded.formUnion(known.superseded)
      trust.name = trust.name ?? known.name
    }
    return trust
  }

  /// As `trust`, for bases to draw with, of which several may be in use: what was seen of one is for `admit`.
  func trustOfBases() throws -> Trust? {
    guard let file = memory[TrustStore.given] else { return nil }
    let given = try Trust(file: file)
    return Trust(keys: given.keys, revoked: given.revoked, superseded: given.superseded)
  }

  /// Takes a verified base into use, unless what was seen of that product speaks against it.
  ///
  /// - Throws: `Refused`.
  func admit(_ base: Verified, now: Int) throws {
    let place = "\(TrustStore.seen) \(base.hint) \(base.publication.name)"
    let before = try remembered(place) ?? Trust(keys: [])
    try checkAllowed(base.id, base.publication, before, now)
    memory[place] = Data(canonical(before.having(seen: base.publication).memory))
  }

  private func remembered(_ place: String) throws -> Trust? {
    guard let data = memory[place], let seen = try? strictJson(data) else { return nil }
    return try Trust(json: .object((seen.object ?? [:]).merging(["keys": .list([])]) { $1 }))
  }

  /// Remembers a bundle that is taken into use: nothing older, and nothing that it takes back, is taken again.
  public func remember(_ publication: Publication) throws {
    guard let trust = try trust() else { return }
    memory[TrustStore.seen] = Data(canonical(trust.having(seen: publication).memory))
  }
}
