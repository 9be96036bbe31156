import Charts
import CoreTransferable
import SwiftUI
import UIKit
import UniformTypeIdentifiers
import UnplugCore

/// How fast the bundle's files are here, and how warm the device became.
struct BenchView: View {
  @Bindable var screen: BenchScreen
  let bundle: BundleScreen

  var body: some View {
    NavigationStack {
      List {
        Section {
          ForEach(["all", "ane", "gpu", "cpu"], id: \.self) { unit in
            Toggle(unit, isOn: $screen[asks: unit])
          }
          Toggle("Sustained: five minutes at full load", isOn: $screen.sustained)
        }
        Section { progress }
        if !screen.points.isEmpty { chart }
        Section {
          ForEach(screen.lines) { line in
            VStack(alignment: .leading) {
              Text("\(line.file), \(line.delegate)").font(.headline)
              Text(line.medianMs.map { "\($0.formatted(.number.precision(.fractionLength(2)))) ms" } ?? "–")
              if !line.note.isEmpty { Text(line.note).font(.caption).foregroundStyle(.secondary) }
            }
            .accessibilityElement(children: .combine)
          }
        }
        if let thermal = screen.thermal { Text("Thermal state: \(thermal)") }
        if let report = screen.report { ShareLink(item: ReportFile(data: report), preview: SharePreview("bench.json")) }
      }
      .navigationTitle("Benchmark")
    }
  }

  @ViewBuilder private var progress: some View {
    switch screen.state {
    case .running(let share, let text):
      ProgressView(value: share) { Text(text) }
      Button("Stop", role: .cancel) { screen.stop() }
    case .failed(let text):
      FailureView(text: text)
      start
    case .idle, .done: start
    }
  }

  private var start: some View {
    Button("Measure") {
      Task {
        // A locked phone measures nothing.
        UIApplication.shared.isIdleTimerDisabled = true
        await screen.run(bundle.bundle)
        UIApplication.shared.isIdleTimerDisabled = false
      }
    }
  }

  private var chart: some View {
    Chart(screen.points) { point in
      LineMark(x: .value(screen.sustained ? "Seconds" : "Run", point.x), y: .value("Milliseconds", point.ms))
        .foregroundStyle(by: .value("File", point.series))
    }
    .frame(height: 240)
    .accessibilityLabel(Text(screen.sustained ? "Latency over time" : "Latency of every run"))
  }
}

/// The report as a file to share.
struct ReportFile: Transferable {
  let data: Data

  static var transferRepresentation: some TransferRepresentation {
    DataRepresentation(exportedContentType: .json) { (report: ReportFile) in report.data }
      .suggestedFileName("bench.json")
  }
}
