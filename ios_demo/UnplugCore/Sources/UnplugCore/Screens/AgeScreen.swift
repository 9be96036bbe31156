import Foundation
import Observation

/// A predictor that stays open, away from the main thread.
public actor AgeWorker {
  private var engine: (any Engine)?
  private var opened = ""

  public init() {}

  func answer(_ reader: Predictor, _ picture: Picture, _ model: PlacedModel, _ delegate: String) throws -> Answer {
    let asked = "\(model.file.path) \(delegate)"
    if opened != asked || engine == nil {
      engine = try model.opener.open(model.file, iospec: model.iospec, delegate: delegate, threads: 2)
      opened = asked
    }
    let outputs = try engine!.runChannelsFirst([reader.input.name: .floats(reader.tensor(picture))])
    return try reader.answer(outputs, file: model.sha256)
  }
}

/// An artifact of a bundle on disk, with what its card says and who opens it.
struct PlacedModel: Sendable {
  let file: URL
  let sha256: String
  let iospec: IOSpec
  let opener: any Opener
}

/// A face that was found in a picture.
public struct FoundFace: Equatable, Sendable {
  /// Around it, in pixels of the picture.
  public let points: [SIMD2<Double>]
  public let outline: FaceOutline

  public init(points: [SIMD2<Double>], outline: FaceOutline = FaceOutline()) { (self.points, self.outline) = (points, outline) }

  /// Nothing where not both were found.
  public var eyes: Eyes? { Eyes(outlines: outline.eyes) }
}

/// Finds faces in a picture; the app's is Apple's Vision.
public protocol FaceFinder: Sendable {
  func faces(_ picture: Picture) async throws -> [FoundFace]
}

extension FaceFinder {
  /// The face of a photograph of one person.
  func only(_ picture: Picture) async throws -> FoundFace {
    let found = try await faces(picture)
    guard found.count == 1 else {
      let why = found.isEmpty ? "no face was found in it" : "\(found.count) faces were found in it"
      throw Failure("The photograph", why, "Choose one of a single face, upright and large enough")
    }
    return found[0]
  }
}

/// A photograph's pixels, decoded away from the main thread.
func read(_ photograph: Data?, _ decoder: any PhotographDecoder) async throws -> Picture {
  guard let photograph else { throw Failure("The photograph", "the library did not give it", "Choose it again, or another") }
  return try await Task.detached { try Picture(photograph: photograph, decoder) }.value
}

/// A photograph in, years or labels out.
@MainActor
@Observable
public final class AgeScreen {
  public enum State: Equatable {
    case idle
    case looking
    case answer(Answer)
    case failed(String)
  }

  public private(set) var state = State.idle
  /// What the model was shown.
  public private(set) var seen: Picture?
  /// What the reader should know of what it was shown; nothing where there is nothing to tell.
  public private(set) var note: String?
  public var delegate: String
  /// What this phone has measured of models, see `BenchScreen.measured`.
  @ObservationIgnored public var measured: () -> [String: Double] = { [:] }
  private let openers: [any Opener]
  private let finder: any FaceFinder
  private let decoder: any PhotographDecoder
  private let folder: URL
  private let worker = AgeWorker()

  /// - Parameter folder: the folder for the model's files, in the app's caches.
  public init(openers: [any Opener], finder: any FaceFinder, decoder: any PhotographDecoder, folder: URL) {
    (self.openers, self.finder, self.decoder, self.folder) = (openers, finder, decoder, folder)
    delegate = openers.first?.delegates.first ?? "all"
  }

  /// - Parameters:
  ///   - photograph: a file as the camera or the library gives it; nothing where it gave none.
  ///   - bundle: the bundle whose model is asked.
  public func look(at photograph: Data?, _ bundle: Verified?) async {
    (state, seen, note) = (.looking, nil, nil)
    do {
      guard let bundle else { throw Failure("The prediction", "no bundle is open", "Open one first") }
      let reader = try Predictor(manifest: bundle.manifest)
      let member = try bundle.member(measured())
      let picture = try await read(photograph, decoder)
      let faces = reader.frame == nil ? [] : try await finder.faces(picture)
      let shown = try await Task.detached { try reader.shown(picture, faces) }.value
      seen = shown
      if reader.frame == nil, reader.classes == nil {
        note = "This bundle does not say where the eyes belong, so the model saw the centre square."
      }
      if let member {
        let told = "The member \(member.name) answers: the best of its family that takes at most \(ecmaScript(frameMs)) ms."
        note = [note, told].compactMap { $0 }.joined(separator: " ")
      }
      state = .answer(try await worker.answer(reader, shown, try place(bundle, member), delegate))
    } catch { state = .failed(line(of: error)) }
  }

  /// The first artifact that an opener takes, on disk; each bundle has a folder of its own.
  private func place(_ bundle: Verified, _ member: Member?) throws -> PlacedModel {
    let cards = bundle.cards().filter { member == nil || $0.value["checkpoint_sha256"]?.string == member?.checkpoint }
    for (suffix, runtime) in [(".mlpackage", "coreml-app"), (".onnx", "onnx-app")] {
      guard let opener = openers.first(where: { $0.runtime == runtime }), opener.delegates.contains(delegate),
        let card = cards.first(where: { $0.artifact.hasSuffix(suffix) })
      else { continue }
      let name = card.artifact.split(separator: "/").dropFirst().joined(separator: "-")
      let place = folder.appendingPathComponent(bundle.id).appendingPathComponent(name)
      if !FileManager.default.fileExists(atPath: place.path) {
        try FileManager.default.createDirectory(at: place.deletingLastPathComponent(), withIntermediateDirectories: true)
        try bundle.write(card.artifact, to: place)
        // What other bundles left is not needed again.
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where name != bundle.id {
          try? FileManager.default.removeItem(at: folder.appendingPathComponent(name))
        }
      }
      let iospec = try IOSpec(card.value["iospec"], what: card.artifact)
      return PlacedModel(file: place, sha256: card.value["sha256"]?.string ?? "", iospec: iospec, opener: opener)
    }
    throw Failure("The bundle", "it holds nothing that this app can run on \(delegate)", "Export it with --to coreml")
  }
}
