import CoreTransferable
import PhotosUI
import SwiftUI
import UIKit
import UniformTypeIdentifiers
import UnplugCore

/// Takes words and edges and draws a picture, step by step.
struct DrawView: View {
  @Bindable var screen: DrawScreen
  @State private var chosen: PhotosPickerItem?
  @State private var folderIsOpen = false

  var body: some View {
    NavigationStack {
      Form {
        Section("Base") {
          Button("Open a folder of unplug export") { folderIsOpen = true }
          if let origin = screen.origin { Text(origin).font(.footnote) }
          if !screen.choices.isEmpty {
            Picker("Files", selection: $screen.choice) {
              ForEach(screen.choices, id: \.self) { Text($0.description).tag(Optional($0)) }
            }
          }
        }
        Section("Words") {
          TextField("What to draw", text: $screen.prompt, axis: .vertical).accessibilityLabel(Text("Prompt"))
          TextField("Seed", text: $screen.seed).keyboardType(.numberPad)
          Stepper("\(screen.steps) steps", value: $screen.steps, in: 1...100)
          if !screen.variants.isEmpty {
            Picker("Variant", selection: $screen.variant) {
              Text("the base itself").tag(String?.none)
              ForEach(screen.variants, id: \.self) { Text($0).tag(Optional($0)) }
            }
          }
          if !screen.packs.isEmpty {
            Text("Packs, used when your words name them: \(screen.packs.joined(separator: ", "))").font(.footnote)
          }
          if let hint = screen.hint { Text(hint).font(.footnote) }
        }
        if !screen.plugins.isEmpty { steering }
        Section { picture }
      }
      .navigationTitle("Draw")
    }
    .onChange(of: chosen) { _, item in
      guard let item else { return }
      Task {
        await screen.take(try? await item.loadTransferable(type: Data.self))
        chosen = nil
      }
    }
    .fileImporter(isPresented: $folderIsOpen, allowedContentTypes: [.folder]) { result in
      if case .success(let place) = result, place.startAccessingSecurityScopedResource() { Task { await screen.open(place) } }
    }
  }

  private var steering: some View {
    Section("Steering") {
      Picker("Plugin", selection: $screen.plugin) {
        Text("none").tag(String?.none)
        ForEach(screen.plugins, id: \.self) { Text($0).tag(Optional($0)) }
      }
      if screen.plugin != nil { followed }
    }
  }

  @ViewBuilder private var followed: some View {
    Picker("Take from the photograph", selection: $screen.follow) {
      Text("what the plugin wants: \(screen.natural.rawValue)").tag(Follow?.none)
      ForEach(Follow.allCases, id: \.self) { Text($0.rawValue).tag(Optional($0)) }
    }
    PhotosPicker(selection: $chosen, matching: .images) { Label("A photograph to follow", systemImage: "photo") }
    SketchPad(screen: screen)
    if let condition = screen.condition { PictureView(picture: condition, label: "What the plugin follows") }
    Slider(value: $screen.strength, in: 0...2) { Text("Strength") }
  }

  @ViewBuilder private var picture: some View {
    switch screen.state {
    case .idle: Button("Draw") { Task { await screen.draw() } }
    case .checking: ProgressView("Checking signature and files")
    case .drawing(let step):
      ProgressView(text(step))
      Button("Stop", role: .cancel) { screen.stop() }
    case .drawn(let picture):
      PictureView(picture: picture, label: "The drawn picture: \(screen.prompt)")
      if let mark = screen.mark { Text(mark).font(.footnote) }
      Button("Draw again") { Task { await screen.draw() } }
    case .stopped:
      Text("Stopped.")
      Button("Draw") { Task { await screen.draw() } }
    case .failed(let text):
      FailureView(text: text)
      Button("Draw") { Task { await screen.draw() } }
    }
  }

  private func text(_ step: DrawStep?) -> String {
    switch step {
    case .opening(let part): "Opening \(part)"
    case .step(let done, let steps): "Step \(done) of \(steps)"
    case nil: "Starting"
    }
  }
}

/// White lines by finger on black, as the plugin takes them.
struct SketchPad: View {
  let screen: DrawScreen
  @State private var lines: [[CGPoint]] = []

  /// A line is begun where the finger has not moved yet.
  private func put(_ value: DragGesture.Value) {
    if value.translation == .zero || lines.isEmpty { lines.append([]) }
    lines[lines.count - 1].append(value.location)
  }

  var body: some View {
    Canvas { context, size in
      for line in lines { context.stroke(path(line), with: .color(.white), lineWidth: 2) }
    }
    .frame(width: side, height: side)
    .background(Color.black)
    .gesture(
      DragGesture(minimumDistance: 0)
        .onChanged { put($0) }
        .onEnded { _ in screen.sketch(lines.map { line in line.map { SIMD2(Double($0.x) / side, Double($0.y) / side) } }) }
    )
    .accessibilityLabel(Text("Sketch pad"))
    .accessibilityHint(Text("Draw white lines with a finger, or choose a photograph"))
    Button("Clear the sketch") {
      lines = []
      screen.condition = nil
    }
    .disabled(lines.isEmpty)
  }

  private let side = 256.0

  private func path(_ line: [CGPoint]) -> Path {
    var path = Path()
    path.addLines(line)
    return path
  }
}
