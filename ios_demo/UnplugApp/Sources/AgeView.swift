import PhotosUI
import SwiftUI
import UnplugCore

/// A photograph in, years out, with what was forgotten one tap away.
struct AgeView: View {
  @Bindable var screen: AgeScreen
  let bundle: BundleScreen
  @State private var chosen: PhotosPickerItem?
  @State private var cameraIsOpen = false

  var body: some View {
    NavigationStack {
      ScrollView {
        VStack(spacing: 16) {
          HStack {
            PhotosPicker(selection: $chosen, matching: .images) { Label("Choose a photograph", systemImage: "photo") }
            Button {
              cameraIsOpen = true
            } label: {
              Label("Take one", systemImage: "camera")
            }
            .disabled(!CameraView.isAvailable)
          }
          .buttonStyle(.bordered)
          Picker("Compute units", selection: $screen.delegate) {
            ForEach(["all", "ane", "gpu", "cpu"], id: \.self) { Text($0) }
          }
          .pickerStyle(.segmented)
          if let seen = screen.seen { PictureView(picture: seen, label: "What the model sees") }
          answer
          Text("Photographs stay on this device: they are neither sent nor stored.").font(.footnote).foregroundStyle(.secondary)
          if case .ready(let facts) = bundle.state {
            NavigationLink {
              FactsView(screen: bundle, facts: facts)
            } label: {
              Text(facts.forgotten)
            }
          }
        }
        .padding()
      }
      .navigationTitle("Age")
    }
    .onChange(of: chosen) { _, item in
      Task {
        guard let data = try? await item?.loadTransferable(type: Data.self) else { return }
        await look(data)
      }
    }
    .sheet(isPresented: $cameraIsOpen) {
      CameraView { data in Task { await look(data) } }
    }
  }

  private func look(_ data: Data) async {
    let picture = await Task.detached { Picture(photograph: data) }.value
    if let picture { await screen.look(at: picture, bundle.bundle) } else { screen.fail("The photograph cannot be read; choose another.") }
  }

  @ViewBuilder private var answer: some View {
    switch screen.state {
    case .idle: EmptyView()
    case .looking: ProgressView("Looking")
    case .failed(let text): Text(text).foregroundStyle(.red)
    case .answer(let answer): AnswerView(answer: answer)
    }
  }
}

struct AnswerView: View {
  let answer: AgeAnswer

  var body: some View {
    VStack(alignment: .leading, spacing: 8) {
      Text("\(Int(answer.years.rounded())) years").font(.largeTitle)
      if let decision = answer.decision { Text(decision.rawValue).font(.title2) }
      ForEach(answer.groups) { group in
        VStack(alignment: .leading) {
          Text(group.name).font(.caption)
          ProgressView(value: group.probability)
        }
        .accessibilityElement(children: .ignore)
        .accessibilityLabel(Text("\(group.name) years"))
        .accessibilityValue(Text("\(Int((100 * group.probability).rounded())) percent"))
      }
    }
  }
}
