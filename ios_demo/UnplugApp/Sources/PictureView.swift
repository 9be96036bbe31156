import SwiftUI
import UnplugCore

/// A picture of the core on screen.
struct PictureView: View {
  let picture: Picture
  let label: String

  var body: some View {
    if let image = picture.cgImage {
      Image(image, scale: 1, label: Text(label)).resizable().interpolation(.none).scaledToFit().frame(maxWidth: 320)
    }
  }
}

/// An error, one line, told from what is right by more than its colour.
struct FailureView: View {
  let text: String

  var body: some View {
    Label(text, systemImage: "exclamationmark.triangle").foregroundStyle(.red).accessibilityElement(children: .combine)
  }
}
