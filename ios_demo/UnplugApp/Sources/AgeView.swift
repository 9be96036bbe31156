import CoreTransferable
import PhotosUI
import SwiftUI
import UnplugCore

/// Takes a photograph and shows an age or a label; what was forgotten and its papers are one tap away.
struct AgeView: View {
  @Bindable var screen: AgeScreen
  let bundle: BundleScreen
  @State private var chosen: PhotosPickerItem?
  @State private var cameraIsOpen = false

  var body: some View {
    NavigationStack {
      ScrollView {
        VStack(spacing: 16) {
          // Side by side where the letters leave room, one above the other where they are large.
          ViewThatFits {
            HStack { sources }
            VStack { sources }
          }
          .buttonStyle(.bordered)
          Picker("Compute units", selection: $screen.delegate) {
            ForEach(["all", "ane", "gpu", "cpu"], id: \.self) { Text($0) }
          }
          .pickerStyle(.segmented)
          if let seen = screen.seen { PictureView(picture: seen, label: "What the model sees") }
          answer
          if let note = screen.note { Text(note).font(.footnote).foregroundStyle(.secondary) }
          Text("Photographs stay on this device: they are neither sent nor stored.").font(.footnote).foregroundStyle(.secondary)
          certificate
        }
        .padding()
      }
      .navigationTitle("Predict")
    }
    .onChange(of: chosen) { _, item in
      guard let item else { return }
      Task {
        await screen.look(at: try? await item.loadTransferable(type: Data.self), bundle.bundle)
        chosen = nil
      }
    }
    .sheet(isPresented: $cameraIsOpen) {
      CameraView { data in Task { await screen.look(at: data, bundle.bundle) } }
    }
  }

  @ViewBuilder private var sources: some View {
    PhotosPicker(selection: $chosen, matching: .images) { Label("Choose a photograph", systemImage: "photo") }
    Button {
      cameraIsOpen = true
    } label: {
      Label("Take one", systemImage: "camera")
    }
    .disabled(!CameraView.isAvailable)
  }

  @ViewBuilder private var certificate: some View {
    if case .ready(let facts) = bundle.state {
      NavigationLink {
        FactsView(screen: bundle, facts: facts)
      } label: {
        Label(facts.forgotten, systemImage: "checkmark.seal")
      }
      .accessibilityHint(Text("Opens what was forgotten, the gates and the certificates"))
    }
  }

  @ViewBuilder private var answer: some View {
    switch screen.state {
    case .idle: EmptyView()
    case .looking: ProgressView("Looking")
    case .failed(let text): FailureView(text: text)
    case .answer(let answer): AnswerView(answer: answer)
    }
  }
}

struct AnswerView: View {
  let answer: Answer

  var body: some View {
    VStack(alignment: .leading, spacing: 8) {
      Text(answer.headline).font(.largeTitle)
      if let said = answer.said { Text(said).font(.title2) }
      if let held = answer.held { Text(held).font(.footnote).foregroundStyle(.secondary) }
      ForEach(answer.shares) { share in
        VStack(alignment: .leading) {
          Text(share.name).font(.caption)
          ProgressView(value: share.probability)
        }
        .accessibilityElement(children: .ignore)
        .accessibilityLabel(Text(answer.years == nil ? share.name : "\(share.name) years"))
        .accessibilityValue(Text("\(share.percent) percent"))
      }
    }
  }
}
