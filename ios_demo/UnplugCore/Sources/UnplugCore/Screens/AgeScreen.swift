import Foundation
import Observation

/// An age predictor that stays open, away from the main thread.
public actor AgeWorker {
  private var engine: (any Engine)?
  private var opened: URL?

  public init() {}

  func answer(_ reader: AgeReader, _ picture: Picture, _ file: URL, _ spec: IOSpec, _ opener: any Opener, _ delegate: String) throws
    -> AgeAnswer
  {
    if opened != file || engine == nil {
      engine = try opener.open(file, iospec: spec, delegate: delegate, threads: 2)
      opened = file
    }
    return try reader.answer(engine!.runChannelsFirst([reader.input.name: .floats(reader.tensor(picture))]))
  }

  func close() { (engine, opened) = (nil, nil) }
}

/// Finds the face in a picture; the app's is Apple's Vision.
public protocol FaceFinder: Sendable {
  /// Of every face points around it, in pixels of the picture.
  func faces(_ picture: Picture) async throws -> [[SIMD2<Double>]]
}

/// A photograph in, years out.
@MainActor
@Observable
public final class AgeScreen {
  public enum State: Equatable {
    case idle
    case looking
    case answer(AgeAnswer)
    case failed(String)
  }

  public private(set) var state = State.idle
  /// What the model was shown.
  public private(set) var seen: Picture?
  public var delegate: String
  private let openers: [any Opener]
  private let finder: any FaceFinder
  private let folder: URL
  private let worker = AgeWorker()

  /// - Parameter folder: for the model's files; the app's caches.
  public init(openers: [any Opener], finder: any FaceFinder, folder: URL) {
    (self.openers, self.finder, self.folder) = (openers, finder, folder)
    delegate = openers.first?.delegates.first ?? "all"
  }

  /// - Parameters:
  ///   - picture: upright, of at most 64 megapixels.
  ///   - bundle: whose model is asked.
  public func look(at picture: Picture, _ bundle: Verified?) async {
    state = .looking
    do {
      guard let bundle else { throw Failure("The age", "no bundle is open", "Open one first") }
      guard picture.width * picture.height <= 64_000_000 else { throw Failure("The photograph", "it has too many pixels", "Shrink it") }
      let reader = try AgeReader(manifest: bundle.manifest)
      let faces = try await finder.faces(picture)
      guard faces.count == 1, let face = Face.square(faces[0], in: picture) else {
        let found = faces.isEmpty ? "no face was found in it" : "\(faces.count) faces were found in it"
        throw Failure("The photograph", found, "Take one of a single face")
      }
      seen = face.square(reader.input.axis("H"))
      let (file, spec, opener) = try place(bundle)
      state = .answer(try await worker.answer(reader, face, file, spec, opener, delegate))
    } catch { state = .failed(line(of: error)) }
  }

  /// A photograph that could not even be read.
  public func fail(_ text: String) { state = .failed(text) }

  /// The first artifact that an opener takes, on disk; each bundle has a folder of its own.
  private func place(_ bundle: Verified) throws -> (URL, IOSpec, any Opener) {
    for (suffix, runtime) in [(".mlpackage", "coreml-app"), (".onnx", "onnx-app")] {
      guard let opener = openers.first(where: { $0.runtime == runtime }), opener.delegates.contains(delegate),
        let card = bundle.cards().first(where: { $0.artifact.hasSuffix(suffix) })
      else { continue }
      let place = folder.appendingPathComponent(bundle.id).appendingPathComponent(String(card.artifact.split(separator: "/").last!))
      if !FileManager.default.fileExists(atPath: place.path) {
        try FileManager.default.createDirectory(at: place.deletingLastPathComponent(), withIntermediateDirectories: true)
        try bundle.write(card.artifact, to: place)
      }
      return (place, try IOSpec(card.value["iospec"], what: card.artifact), opener)
    }
    throw Failure("The bundle", "it holds nothing that this app can run on \(delegate)", "Export it with --to coreml")
  }
}
