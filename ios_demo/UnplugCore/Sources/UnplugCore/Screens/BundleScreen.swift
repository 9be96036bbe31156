import Foundation
import Observation

/// One condition that held when the bundle was released.
public struct GateLine: Identifiable, Equatable, Sendable {
  public let name: String
  public let text: String
  public let passed: Bool
  public var id: String { name }
}

/// What a bundle says of itself, for a screen.
public struct BundleFacts: Equatable, Sendable {
  public let id: String
  public let name: String
  public let release: Int
  public let expires: String?
  /// What was forgotten, in a sentence.
  public let forgotten: String
  public let requests: [String]
  public let gates: [GateLine]
  /// Reports and certificates inside, by path.
  public let papers: [String]

  init(_ bundle: Verified) {
    let (said, lineage) = (bundle.publication, bundle.manifest["lineage"])
    (id, name, release, expires, requests) = (bundle.id, said.name, said.release, said.expires, said.requests)
    let (samples, method) = (lineage?["forget_samples"]?.int ?? 0, lineage?["method"]?.string ?? "")
    let share = lineage?["compute_fraction"]?.double.map { " at \(oneDigit(100 * $0)) % of the cost of retraining" } ?? ""
    forgotten = samples == 0 ? "Nobody asked to be forgotten yet" : "\(samples) pictures were forgotten with the method \(method)\(share)"
    gates = (bundle.manifest["gates"]?.list ?? []).map(BundleFacts.gate)
    papers = bundle.files.keys.sorted().map(\.string).filter {
      $0.hasPrefix("reports/") || $0.hasPrefix("certificates/") || $0 == "README.md"
    }
  }

  private static func gate(_ value: Json) -> GateLine {
    let unit = value["unit"]?.string ?? ""
    let limit = value["limit"]?.double.map(ecmaScript) ?? "?"
    let measured = value["value"]?.double.map { "\(ecmaScript(($0 * 1e4).rounded() / 1e4))\(unit)" } ?? "not measured"
    let text = "\(measured), must be \(value["comparison"]?.string ?? "") \(limit)\(unit)"
    return GateLine(name: value["name"]?.string ?? "?", text: text, passed: value["passed"]?.bool ?? false)
  }
}

/// The bundle that is in use: opened, verified, remembered.
@MainActor
@Observable
public final class BundleScreen {
  public enum State: Equatable {
    case empty
    case checking
    case ready(BundleFacts)
    /// One clear line; what was in use before stays in use.
    case refused(String)
  }

  public private(set) var state = State.empty
  @ObservationIgnored public private(set) var bundle: Verified?
  /// Why the bundle in use will not be there at the next start; nothing where it will.
  public private(set) var notice: String?
  private let store: TrustStore
  private let home: URL?
  private let now: () -> Int

  /// - Parameters:
  ///   - home: a folder of this screen's own, where the bundle in use is kept for the next start.
  ///   - now: seconds since 1970.
  public init(_ memory: any Memory, home: URL? = nil, now: @escaping () -> Int = { Int(Date().timeIntervalSince1970) }) {
    store = TrustStore(memory)
    (self.home, self.now) = (home, now)
  }

  /// Takes the bundle of the last start into use, checked anew: it may have expired since.
  public func reopen() async {
    guard bundle == nil, let home, let kept = try? FileManager.default.contentsOfDirectory(atPath: home.path) else { return }
    guard let name = kept.sorted().first(where: { !$0.hasPrefix(".") }) else { return }
    await open(home.appendingPathComponent(name))
  }

  /// A public key or a trust file.
  public func trust(_ file: Data) {
    do { try store.take(file) } catch { state = .refused(line(of: error)) }
  }

  public var hasTrust: Bool { ((try? store.trust()) ?? nil) != nil }

  /// Opens a folder or a zip file.
  public func open(_ place: URL) async {
    state = .checking
    do {
      guard let trust = try store.trust() else {
        throw Failure("The bundle", "this app trusts no key yet", "Give it the publisher's .pub file first")
      }
      let time = now()
      let found = try await Task.detached { try verify(BundleScreen.read(place), trust, now: time) }.value
      try store.remember(found.publication)
      bundle = found
      notice = nil
      do { try await keep(found) } catch { notice = line(of: error) }
      state = .ready(BundleFacts(found))
    } catch {
      state = .refused(line(of: error))
    }
  }

  /// Writes the bundle in use to `home`, whole or not at all, and nothing else stays there.
  private func keep(_ bundle: Verified) async throws {
    guard let home else { return }
    try await Task.detached {
      let manager = FileManager.default
      try manager.createDirectory(at: home, withIntermediateDirectories: true)
      let target = home.appendingPathComponent(bundle.id)
      if !manager.fileExists(atPath: target.path) { try bundle.write("", to: target) }
      for name in try manager.contentsOfDirectory(atPath: home.path) where name != bundle.id {
        try manager.removeItem(at: home.appendingPathComponent(name))
      }
    }.value
  }

  /// Back from a refusal to what is in use.
  public func dismiss() { state = bundle.map { .ready(BundleFacts($0)) } ?? .empty }

  /// The text of a report or certificate inside.
  public func paper(_ path: String) -> String {
    guard let data = bundle?.files[ExactText(path)], data.count <= 4 << 20 else { return "" }
    return String(decoding: data, as: UTF8.self)
  }

  nonisolated static func read(_ place: URL) throws -> [ExactText: Data] {
    let facts = try? FileManager.default.attributesOfItem(atPath: place.path)
    switch facts?[.type] as? FileAttributeType {
    case .typeDirectory?: return try readFolder(place)
    case .typeRegular?:
      guard (facts?[.size] as? NSNumber)?.intValue ?? 0 <= Zip.maxBytes else { throw Refused(.archive, "the zip file is too large") }
      guard let data = try? Data(contentsOf: place) else { throw Failure("The bundle", "it cannot be read", "Copy it here again") }
      return try Zip.read(data)
    default: throw Failure("The bundle", "nothing is there", "Choose a bundle folder, or the zip file of one")
    }
  }
}
