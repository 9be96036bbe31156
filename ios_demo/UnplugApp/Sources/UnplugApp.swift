import Observation
import SwiftUI
import UIKit
import UnplugCore
import UnplugCoreML

/// Five screens; or, with `--benchmark FOLDER`, a benchmark without any.
@main
struct UnplugApp: App {
  @State private var model = AppModel()

  var body: some Scene {
    WindowGroup {
      if let benchmark = model.headless {
        HeadlessView(text: benchmark).task { await model.measure() }
      } else {
        TabView {
          AgeView(screen: model.age, bundle: model.bundle).tabItem { Label("Predict", systemImage: "face.smiling") }
          DrawView(screen: model.draw).tabItem { Label("Draw", systemImage: "paintbrush") }
          ForgetView(screen: model.forget, bundle: model.bundle).tabItem { Label("Forget me", systemImage: "person.badge.minus") }
          BenchView(screen: model.bench, bundle: model.bundle).tabItem { Label("Benchmark", systemImage: "speedometer") }
          BundleView(screen: model.bundle).tabItem { Label("Bundle", systemImage: "shippingbox") }
        }
        .onOpenURL { place in Task { await model.open(place) } }
        .task { await model.begin() }
      }
    }
  }
}

/// The screens' models with what the system gives them.
@MainActor
@Observable
final class AppModel {
  let bundle: BundleScreen
  let age: AgeScreen
  let draw: DrawScreen
  let forget: ForgetScreen
  let bench: BenchScreen
  /// The line that a headless benchmark shows; nothing where none was asked for.
  private(set) var headless: String?
  private var asked: URL?
  private let openers: [any Opener] = [CoreMLOpener()]

  init() {
    let (caches, support) = (URL.cachesDirectory, URL.applicationSupportDirectory)
    let (finder, decoder) = (VisionFaces(), SystemPhotographs())
    bundle = BundleScreen(DefaultsMemory(), home: support.appendingPathComponent("bundle"))
    age = AgeScreen(openers: openers, finder: finder, decoder: decoder, folder: caches.appendingPathComponent("models"))
    draw = DrawScreen(openers: openers, finder: finder, decoder: decoder, memory: DefaultsMemory())
    forget = ForgetScreen(openers: openers, finder: finder, decoder: decoder, home: support.appendingPathComponent("own/head"))
    bench = BenchScreen(openers: openers, folder: caches.appendingPathComponent("benchmark")) { PhonePlatform() }
    age.measured = { [bench] in bench.measured }
    let container = URL.documentsDirectory.deletingLastPathComponent()
    do {
      asked = try HeadlessBench.folder(CommandLine.arguments, container: container)
      if asked != nil { headless = "The benchmark runs; keep this app in front." }
    } catch { headless = line(of: error) }
  }

  /// What the last start left: the bundle in use, and a benchmark that did not end.
  func begin() async {
    bench.recover()
    await bundle.reopen()
  }

  /// A bundle, a trust file or a folder of a generator, handed over by another app or the file picker.
  func open(_ place: URL) async {
    let scoped = place.startAccessingSecurityScopedResource()
    defer { if scoped { place.stopAccessingSecurityScopedResource() } }
    if FileManager.default.fileExists(atPath: place.appendingPathComponent(Pipeline.fileName).path) {
      await draw.open(place)
    } else if ["pub", "pem", "json"].contains(place.pathExtension), let file = try? Data(contentsOf: place) {
      bundle.trust(file)
    } else {
      await bundle.open(place)
    }
  }

  /// The benchmark that the launch arguments asked for, once.
  func measure() async {
    guard let folder = asked else { return }
    asked = nil
    UIApplication.shared.isIdleTimerDisabled = true
    let openers = openers
    do {
      try await Task.detached { try HeadlessBench.run(folder, openers: openers, platform: PhonePlatform()) }.value
      headless = "The benchmark is done."
    } catch { headless = line(of: error) }
    UIApplication.shared.isIdleTimerDisabled = false
  }
}

struct HeadlessView: View {
  let text: String

  var body: some View {
    Text(text).font(.title3).multilineTextAlignment(.center).padding()
  }
}
