import SwiftUI
import UniformTypeIdentifiers
import UnplugCore

/// Which bundle is in use, who published it, what was forgotten, which gates held.
struct BundleView: View {
  let screen: BundleScreen
  @State private var bundleIsOpen = false
  @State private var trustIsOpen = false

  var body: some View {
    NavigationStack {
      List {
        Section {
          Button(screen.hasTrust ? "Trust another publisher" : "Trust a publisher's key") { trustIsOpen = true }
            .fileImporter(isPresented: $trustIsOpen, allowedContentTypes: [.data, .json]) { result in
              if let data = read(result) { screen.trust(data) }
            }
          Button("Open a bundle") { bundleIsOpen = true }
            .fileImporter(isPresented: $bundleIsOpen, allowedContentTypes: [.folder, .zip]) { result in
              guard case .success(let place) = result else { return }
              Task {
                let scoped = place.startAccessingSecurityScopedResource()
                await screen.open(place)
                if scoped { place.stopAccessingSecurityScopedResource() }
              }
            }
        }
        Section { state }
      }
      .navigationTitle("Bundle")
    }
  }

  private func read(_ result: Result<URL, any Error>) -> Data? {
    guard case .success(let place) = result else { return nil }
    let scoped = place.startAccessingSecurityScopedResource()
    defer { if scoped { place.stopAccessingSecurityScopedResource() } }
    return try? Data(contentsOf: place)
  }

  @ViewBuilder private var state: some View {
    switch screen.state {
    case .empty: Text("No bundle is open.")
    case .checking: ProgressView("Checking signature and files")
    case .refused(let text):
      FailureView(text: text)
      Button("Back") { screen.dismiss() }
    case .ready(let facts):
      NavigationLink {
        FactsView(screen: screen, facts: facts)
      } label: {
        VStack(alignment: .leading) {
          Text("\(facts.name), release \(facts.release)").font(.headline)
          Text(facts.forgotten)
        }
      }
      if let notice = screen.notice { FailureView(text: notice) }
    }
  }
}

/// The certificate side: what was forgotten, what held, and the papers inside.
struct FactsView: View {
  let screen: BundleScreen
  let facts: BundleFacts

  var body: some View {
    List {
      Section("Forgotten") {
        Text(facts.forgotten)
        ForEach(facts.requests, id: \.self) { Text("Request \($0)") }
      }
      Section("Gates") {
        ForEach(facts.gates) { gate in
          Label {
            VStack(alignment: .leading) {
              Text(gate.name)
              Text(gate.text).font(.caption)
            }
          } icon: {
            Image(systemName: gate.passed ? "checkmark.circle" : "xmark.circle")
          }
          .accessibilityElement(children: .combine)
          .accessibilityValue(Text(gate.passed ? "holds" : "does not hold"))
        }
      }
      Section("Papers") {
        ForEach(facts.papers, id: \.self) { path in
          NavigationLink(path) {
            ScrollView { Text(screen.paper(path)).font(.footnote.monospaced()).textSelection(.enabled).padding() }
              .navigationTitle(path)
          }
        }
      }
      Section("Identity") {
        Text(facts.id).font(.caption.monospaced()).textSelection(.enabled)
        if let expires = facts.expires { Text("Valid until \(expires)") }
      }
    }
    .navigationTitle("\(facts.name) \(facts.release)")
  }
}
