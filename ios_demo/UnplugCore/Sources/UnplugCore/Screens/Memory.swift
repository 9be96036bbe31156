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
    if let data = memory[TrustStore.seen], let seen = try? strictJson(data) {
      let known = try Trust(json: .object((seen.object ?? [:]).merging(["keys": .list([])]) { $1 }))
      trust.minimumRelease = max(trust.minimumRelease, known.minimumRelease)
      trust.revoked.formUnion(known.revoked)
      trust.superseded.formUnion(known.superseded)
      trust.name = trust.name ?? known.name
    }
    return trust
  }

  /// Remembers a bundle that is taken into use: nothing older, and nothing that it takes back, is taken again.
  public func remember(_ publication: Publication) throws {
    guard let trust = try trust() else { return }
    memory[TrustStore.seen] = Data(canonical(trust.having(seen: publication).memory))
  }
}
