/// The budget: one frame of a preview of 30 pictures a second.
public let frameMs = 33.0

/// One of the models of several sizes that share one head, as a manifest's `postprocessing.family` lists them.
public struct Member: Equatable, Sendable {
  public let name: String
  /// Median of one picture, of the phone itself where it has measured; nothing where nobody has.
  public let latencyMs: Double?
  public let checkpoint: String
}

extension Verified {
  /// The member of a family that answers: the best that takes at most `frameMs`; nothing where the bundle has one model alone.
  ///
  /// - Parameter measured: milliseconds on this phone by the SHA-256 of the checkpoint; they count more than the manifest's.
  /// - Throws: `Failure`: see `chooseMember`; or what stands there is no family.
  func member(_ measured: [String: Double]) throws -> Member? {
    guard let family = manifest["postprocessing"]?["family"], family != .null else { return nil }
    let members = (family["members"]?.list ?? []).map { item -> Member? in
      guard let name = item["name"]?.string, let checkpoint = item["checkpoint_sha256"]?.string, let told = item["latency_ms"],
        told == .null || told.double != nil
      else { return nil }
      return Member(name: name, latencyMs: measured[checkpoint] ?? told.double, checkpoint: checkpoint)
    }
    guard family["schema"] == .text("unplug-family/1"), !members.contains(nil) else {
      throw Failure("The family", "it does not follow its schema", "Get another release")
    }
    return try chooseMember(members.compactMap { $0 }, budgetMs: frameMs)
  }
}

/// The best member that fits: the first, best first as they are listed, whose latency is known and at most the budget.
///
/// - Throws: `Failure`: no member fits; a budget or a latency that is not above 0; no members, or two of one name.
public func chooseMember(_ members: [Member], budgetMs: Double) throws -> Member {
  func isTime(_ ms: Double) -> Bool { ms > 0 && ms < .infinity }
  let budget = "The budget of \(budgetMs) ms"
  guard isTime(budgetMs) else { throw Failure(budget, "it is not a time", "Give milliseconds above 0") }
  let known = members.compactMap(\.latencyMs)
  // By their characters: Swift's texts are equal where only their forms in Unicode differ.
  guard !members.isEmpty, Set(members.map { Array($0.name.unicodeScalars) }).count == members.count, known.allSatisfy(isTime) else {
    throw Failure("The family", "it needs members of different names, and latencies above 0", "Get another release")
  }
  if let found = members.first(where: { ($0.latencyMs ?? .infinity) <= budgetMs }) { return found }
  let fastest = known.min().map { "the fastest takes \(ecmaScript($0)) ms" } ?? "none was timed"
  throw Failure(budget, "no member fits: \(fastest)", "Time its files in the benchmark")
}
