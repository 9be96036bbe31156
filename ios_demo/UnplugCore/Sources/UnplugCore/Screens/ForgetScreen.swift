import Foundation
import Observation

/// The phone's own head: its owner's pictures go in, change what it says, and come out again without a trace.
@MainActor
@Observable
public final class ForgetScreen {
  /// A picture that is in, and what all of them changed about it.
  public struct Row: Equatable, Identifiable, Sendable {
    public let picture: OwnPicture
    public let change: Change
    /// Nothing where the head tells ages.
    let label: String?
    public var id: Int { picture.number }
    public var title: String { "Picture \(id), \(label ?? "\(ecmaScript(picture.truth)) years")" }
  }

  /// What the screen shows of a head; made away from the main thread.
  public struct Shown: Sendable {
    let own: OwnHead
    public let rows: [Row]
    public let proof: Proof
    /// The same of the photograph that was looked at last; nothing where none was.
    public let asked: Change?

    init(_ own: OwnHead, _ asked: [Double]?) throws {
      let changes = try own.changes(own.pictures.map(\.pooled) + (asked.map { [$0] } ?? []))
      (self.own, proof) = (own, try own.proof())
      rows = zip(own.pictures, changes).map { Row(picture: $0, change: $1, label: own.label($0)) }
      self.asked = asked == nil ? nil : changes.last
    }

    /// Labels to choose from; none: an age is typed.
    public var labels: [String] { own.head.classes }

    public var verdict: String { proof.isEqual ? "Equal, bit for bit" : "Not equal: open the head again" }

    /// What is equal to what.
    public var told: String {
      if rows.isEmpty { return "This head holds none of your pictures, and is the head that came." }
      return
        "This head holds the pictures above. One made anew of the head that came and these alone, in another order, is the same: "
        + "what you removed left nothing."
    }

    public var digests: String { "This head: \(proof.found)\nOne that never held what was removed: \(proof.never)" }
  }

  /// How little the owner's pictures gain.
  public static let little = "Do not expect much: a few pictures among many hardly move a head."

  /// Nothing where no head is open.
  public private(set) var shown: Shown?
  public private(set) var isBusy = false
  /// Why something did not go on; nothing where it did.
  public private(set) var failure: String?
  /// The photograph that was looked at last, and can be added.
  public private(set) var seen: Picture?
  /// The owner's age in it, as it is typed.
  public var age = ""
  /// The number of the label that is chosen for it, where the head tells labels.
  public var label = 0
  /// What is on the phone, in a sentence.
  public var summary: String {
    guard let own = shown?.own else {
      return "There is no head yet. Open the folder that “unplug head make” wrote, with its trunk’s exported files in it."
    }
    return "Pictures in this head: \(own.head.committed.count). Yours: \(own.pictures.count)."
  }
  private var pooled: [Double]?
  private let openers: [any Opener]
  private let finder: any FaceFinder
  private let decoder: any PhotographDecoder
  private let home: URL
  private var kept: URL { home.deletingLastPathComponent().appendingPathComponent("own.json") }

  /// - Parameter home: the app's own folder for the head; what is kept of the owner's pictures lies next to it.
  public init(openers: [any Opener], finder: any FaceFinder, decoder: any PhotographDecoder, home: URL) {
    (self.openers, self.finder, self.decoder, self.home) = (openers, finder, decoder, home)
  }

  /// Takes the head of the last start.
  public func reopen() async {
    guard shown == nil, FileManager.default.fileExists(atPath: home.path) else { return }
    await act { try await self.load() }
  }

  /// A folder, or the zip file of one. Pictures that were added over the same trunk go into the new head.
  public func open(_ place: URL) async {
    let (openers, home) = (openers, home)
    await act {
      try await Task.detached { try HeadFiles(BundleScreen.read(place), openers).write(to: home) }.value
      try await self.load()
    }
  }

  private func load() async throws {
    let (openers, home, kept) = (openers, home, kept)
    let found = try await Task.detached { () throws -> Shown in
      let start = try PlacedHead(home, openers).start
      return try Shown((try? Data(contentsOf: kept)).map { try OwnHead(start, kept: $0) } ?? OwnHead(start), nil)
    }.value
    (shown, seen, pooled, label) = (found, nil, nil, 0)
  }

  /// - Parameters:
  ///   - photograph: a file as the library gives it; nothing where it gave none.
  ///   - bundle: says where the eyes of a face go, if it is an age model's and the head tells ages; else the centre square is taken.
  public func look(at photograph: Data?, _ bundle: Verified?) async {
    let (openers, home, finder) = (openers, home, finder)
    await act {
      guard let own = self.shown?.own else { throw Failure("The head", "none is open", "Open the folder that unplug head make wrote") }
      let picture = try await read(photograph, self.decoder)
      let frame = own.head.classes.isEmpty ? bundle.flatMap { try? Predictor(manifest: $0.manifest) }?.frame : nil
      let faces = frame == nil ? [] : try await finder.faces(picture)
      let (pooled, shown) = try await Task.detached { () throws -> ([Double], Shown) in
        let pooled = try PlacedHead(home, openers).pooled(picture, faces, frame)
        return (pooled, try Shown(own, pooled))
      }.value
      (self.seen, self.pooled, self.shown) = (picture, pooled, shown)
    }
  }

  /// Adds the photograph that was looked at last, with the age that was typed or the label that was chosen.
  public func add() async {
    guard let pooled, let shown else { return }
    guard let truth = shown.labels.isEmpty ? Double(age.replacingOccurrences(of: ",", with: ".")) : Double(label) else {
      return failure = Failure("The age", "it is not a number", "Give years").description
    }
    await change { try $0.add(pooled, truth: truth) }
  }

  public func remove(_ number: Int) async { await change { try $0.remove(number) } }

  public func removeAll() async { await change { try $0.removeAll() } }

  private func change(_ how: @escaping @Sendable (inout OwnHead) throws -> Void) async {
    guard let own = shown?.own else { return }
    let (pooled, kept) = (pooled, kept)
    await act {
      self.shown = try await Task.detached { () throws -> Shown in
        var next = own
        try how(&next)
        do { try next.data().write(to: kept, options: .atomic) } catch { throw unwritten("The pictures", error) }
        return try Shown(next, pooled)
      }.value
    }
  }

  private func act(_ what: () async throws -> Void) async {
    guard !isBusy else { return }
    (isBusy, failure) = (true, nil)
    do { try await what() } catch { failure = line(of: error) }
    isBusy = false
  }
}
