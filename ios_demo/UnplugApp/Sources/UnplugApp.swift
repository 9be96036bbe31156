import SwiftUI
import UnplugCore
import UnplugCoreML

/// Four screens over one bundle; or, with `--benchmark FOLDER`, a benchmark without any.
@main
struct UnplugApp: App {
  @State private var model = AppModel()

  var body: some Scene {
    WindowGroup {
      if let benchmark = model.headless {
        HeadlessView(text: benchmark)
      } else {
        TabView {
          AgeView(screen: model.age, bundle: model.bundle).tabItem { Label("Age", systemImage: "face.smiling") }
          DrawView(screen: model.draw).tabItem { Label("Draw", systemImage: "paintbrush") }
          BenchView(screen: model.bench, bundle: model.bundle).tabItem { Label("Benchmark", systemImage: "speedometer") }
          BundleView(screen: model.bundle).tabItem { Label("Bundle", systemImage: "shippingbox") }
        }
        .onOpenURL { place in Task { await model.open(place) } }
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
  let bench: BenchScreen
  /// The line that a headless benchmark shows; nothing where none was asked for.
  private(set) var headless: String?

  init() {
    let caches = URL.cachesDirectory
    let openers: [any Opener] = [CoreMLOpener()]
    bundle = BundleScreen(DefaultsMemory())
    age = AgeScreen(openers: openers, finder: VisionFaces(), folder: caches.appendingPathComponent("models"))
    draw = DrawScreen(openers: openers)
    bench = BenchScreen(openers: openers, folder: caches) { PhonePlatform() }
    startHeadless(openers)
  }

  /// A bundle, a trust file or a folder of a generator, handed over by another app or the file picker.
  func open(_ place: URL) async {
    let scoped = place.startAccessingSecurityScopedResource()
    defer { if scoped { place.stopAccessingSecurityScopedResource() } }
    if FileManager.default.fileExists(atPath: place.appendingPathComponent(Pipeline.fileName).path) {
      draw.open(place)
    } else if ["pub", "pem", "json"].contains(place.pathExtension), let file = try? Data(contentsOf: place) {
      bundle.trust(file)
    } else {
      await bundle.open(place)
    }
  }

  private func startHeadless(_ openers: [any Opener]) {
    let container = URL.documentsDirectory.deletingLastPathComponent()
    do {
      guard let folder = try HeadlessBench.folder(CommandLine.arguments, container: container) else { return }
      headless = "The benchmark runs; keep this app in front."
      UIApplication.shared.isIdleTimerDisabled = true
      Task.detached {
        let said: String
        do {
          try HeadlessBench.run(folder, openers: openers, platform: PhonePlatform())
          said = "The benchmark is done."
        } catch { said = line(of: error) }
        await MainActor.run { self.headless = said }
      }
    } catch { headless = line(of: error) }
  }
}

struct HeadlessView: View {
  let text: String

  var body: some View {
    Text(text).font(.title3).multilineTextAlignment(.center).padding()
  }
}
