import Foundation

/// A picture that the owner of a phone has added.
public struct OwnPicture: Equatable, Identifiable, Sendable {
  /// Counts the pictures that were added, from 1.
  public let number: Int
  /// The trunk's features of it: what takes it out again.
  let pooled: [Double]
  /// The owner's age in it, in years, or the number of its label.
  public let truth: Double
  public var id: Int { number }
  var name: String { "me-\(number)" }
}

/// What is said of a picture: by the head that came, and by the one with its owner's pictures.
public struct Change: Equatable, Sendable {
  public let before: Answer
  public let now: Answer
  public var text: String { "The head that came says \(said(before)), with your pictures \(said(now))." }

  private func said(_ answer: Answer) -> String {
    answer.years.map { "\(oneDigit($0)) years" } ?? "\(answer.shares[0].name), \(oneDigit(100 * answer.shares[0].probability)) %"
  }
}

/// Whether the head that pictures were taken out of is one that never held them.
public struct Proof: Equatable, Sendable {
  /// The digest of the head that is.
  public let found: String
  /// The digest of one made anew out of the head that came and the pictures that are still in, the last first.
  public let never: String
  public var isEqual: Bool { found == never }
}

/// A head and its owner's pictures in it. Removing subtracts from the head that is; it is never computed anew.
public struct OwnHead: Sendable {
  private let start: DeviceHead
  public private(set) var head: DeviceHead
  /// Those that are in, as they were added.
  public private(set) var pictures: [OwnPicture] = []

  /// The head as it came.
  public init(_ start: DeviceHead) { (self.start, head) = (start, start) }

  /// A head that came, with the pictures that `data` kept: of those over another trunk none, since their features mean nothing here, nor
  /// those whose label this head does not know.
  public init(_ start: DeviceHead, kept data: Data) throws {
    self.init(start)
    let wrong = Failure("The pictures", "what was kept of them cannot be read", "Open the head again")
    guard let kept = try? looseJson(data), kept["schema"] == .text(OwnHead.schema), let all = kept["pictures"]?.list else { throw wrong }
    guard kept["trunk_sha256"] == start.facts["trunk_sha256"] else { return }
    for item in all {
      guard let number = item["number"]?.int, (item["age"]?.double == nil) != (item["label"]?.text == nil),
        let pooled = item["features"]?.list?.compactMap(\.double)
      else { throw wrong }
      let place = start.classes.firstIndex { ExactText($0) == item["label"]?.text }
      guard let truth = start.classes.isEmpty ? item["age"]?.double : place.map(Double.init) else { continue }
      try put(OwnPicture(number: number, pooled: pooled, truth: truth))
    }
  }

  private static let schema: ExactText = "unplug-own/1"

  /// One more picture of the owner, by the trunk's features of it.
  public mutating func add(_ pooled: [Double], truth: Double) throws {
    if let same = pictures.first(where: { $0.pooled == pooled }) {
      throw Failure("The photograph", "it is in this head already, as picture \(same.number)", "Choose another one")
    }
    try put(OwnPicture(number: 1 + (pictures.map(\.number).max() ?? 0), pooled: pooled, truth: truth))
  }

  private mutating func put(_ picture: OwnPicture) throws {
    head = try head.adding(picture.name, picture.pooled, truth: picture.truth)
    pictures.append(picture)
  }

  /// Takes the picture of a number out.
  public mutating func remove(_ number: Int) throws {
    guard let place = pictures.firstIndex(where: { $0.number == number }) else { return }
    head = try head.removing(pictures[place].name, pictures[place].pooled, truth: pictures[place].truth)
    pictures.remove(at: place)
  }

  /// Takes all of the owner's out.
  public mutating func removeAll() throws {
    for picture in pictures { try remove(picture.number) }
  }

  /// What the owner's pictures changed about pictures.
  public func changes(_ pooled: [[Double]]) throws -> [Change] {
    try zip(start.answers(pooled), head.answers(pooled)).map { Change(before: $0.said, now: $1.said) }
  }

  /// See `Proof`.
  public func proof() throws -> Proof {
    let never = try pictures.reversed().reduce(start) { try $0.adding($1.name, $1.pooled, truth: $1.truth) }
    return Proof(found: head.digest, never: never.digest)
  }

  /// The label that a picture was added with; nothing where the head tells ages.
  func label(_ picture: OwnPicture) -> String? { start.classes.isEmpty ? nil : start.classes[Int(picture.truth)] }

  /// What a phone keeps: the owner's pictures.
  public func data() -> Data {
    let all = pictures.map { picture in
      var kept: [ExactText: Json] = ["number": .number(Double(picture.number)), "features": .list(picture.pooled.map(Json.number))]
      // A label by its name: another head may have other numbers.
      if let label = label(picture) { kept["label"] = .text(ExactText(label)) } else { kept["age"] = .number(picture.truth) }
      return Json.object(kept)
    }
    let trunk = start.facts["trunk_sha256"] ?? .null
    return Data(canonical(.object(["schema": .text(OwnHead.schema), "trunk_sha256": trunk, "pictures": .list(all)])))
  }
}
