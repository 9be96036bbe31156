import SwiftUI
import UIKit

/// The system's camera, for one photograph.
struct CameraView: UIViewControllerRepresentable {
  let taken: (Data) -> Void
  @Environment(\.dismiss) private var dismiss

  static var isAvailable: Bool { UIImagePickerController.isSourceTypeAvailable(.camera) }

  func makeUIViewController(context: Context) -> UIImagePickerController {
    let picker = UIImagePickerController()
    picker.sourceType = .camera
    if UIImagePickerController.isCameraDeviceAvailable(.front) { picker.cameraDevice = .front }
    picker.delegate = context.coordinator
    return picker
  }

  func updateUIViewController(_ picker: UIImagePickerController, context: Context) {}

  func makeCoordinator() -> Coordinator { Coordinator(self) }

  final class Coordinator: NSObject, UINavigationControllerDelegate, UIImagePickerControllerDelegate {
    private let view: CameraView

    init(_ view: CameraView) { self.view = view }

    func imagePickerController(
      _ picker: UIImagePickerController, didFinishPickingMediaWithInfo info: [UIImagePickerController.InfoKey: Any]
    ) {
      if let image = info[.originalImage] as? UIImage, let data = image.jpegData(compressionQuality: 1) { view.taken(data) }
      view.dismiss()
    }

    func imagePickerControllerDidCancel(_ picker: UIImagePickerController) { view.dismiss() }
  }
}
