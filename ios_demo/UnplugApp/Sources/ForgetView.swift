import CoreTransferable
import PhotosUI
import SwiftUI
import UniformTypeIdentifiers
import UnplugCore

/// Adds its owner's pictures to the phone's own head, shows what they change, and takes them out again without a trace.
struct ForgetView: View {
  @Bindable var screen: ForgetScreen
  let bundle: BundleScreen
  @State private var chosen: PhotosPickerItem?
  @State private var headIsOpen = false

  var body: some View {
    NavigationStack {
      List {
        Section {
          Text(screen.summary)
          Text(ForgetScreen.little).font(.footnote).foregroundStyle(.secondary)
          Button(screen.shown == nil ? "Open a head" : "Open another head") { headIsOpen = true }
            .fileImporter(isPresented: $headIsOpen, allowedContentTypes: [.folder, .zip]) { result in
              guard case .success(let place) = result else { return }
              Task {
                let scoped = place.startAccessingSecurityScopedResource()
                await screen.open(place)
                if scoped { place.stopAccessingSecurityScopedResource() }
              }
            }
          if screen.isBusy { ProgressView("Working") }
          if let failure = screen.failure { FailureView(text: failure) }
        }
        if let shown = screen.shown {
          photograph(shown)
          Section("Your pictures") {
            ForEach(shown.rows) { row in
              VStack(alignment: .leading) {
                Text(row.title).font(.headline)
                Text(row.change.text)
                // Bordered: a plain button takes the whole row for itself.
                Button("Remove", role: .destructive) { Task { await screen.remove(row.id) } }
                  .buttonStyle(.bordered)
                  .accessibilityHint(Text(row.title))
              }
            }
            if shown.rows.count > 1 { Button("Remove all", role: .destructive) { Task { await screen.removeAll() } } }
          }
          Section("Proof") {
            Label(shown.verdict, systemImage: shown.proof.isEqual ? "equal.circle" : "exclamationmark.triangle").font(.headline)
            Text(shown.told)
            Text(shown.digests).font(.caption.monospaced()).textSelection(.enabled)
          }
        }
      }
      .disabled(screen.isBusy)
      .navigationTitle("Forget me")
    }
    .onChange(of: chosen) { _, item in
      guard let item else { return }
      Task {
        await screen.look(at: try? await item.loadTransferable(type: Data.self), bundle.bundle)
        chosen = nil
      }
    }
    .task { await screen.reopen() }
  }

  private func photograph(_ shown: ForgetScreen.Shown) -> some View {
    Section("Your photograph") {
      PhotosPicker(selection: $chosen, matching: .images) { Label("Choose a photograph", systemImage: "photo") }
      if let seen = screen.seen, let asked = shown.asked {
        PictureView(picture: seen, label: "The photograph")
        Text(asked.text)
        if shown.labels.isEmpty {
          TextField("Your age in it", text: $screen.age).keyboardType(.numbersAndPunctuation)
        } else {
          Picker("Its label", selection: $screen.label) { ForEach(shown.labels.indices, id: \.self) { Text(shown.labels[$0]).tag($0) } }
        }
        Button("Add") { Task { await screen.add() } }
      }
    }
  }
}
