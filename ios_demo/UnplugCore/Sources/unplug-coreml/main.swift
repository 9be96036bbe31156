import Foundation
import UnplugCore
import UnplugCoreML

/// Runs the files of a folder through Core ML: `unplug-coreml FOLDER`. Exit codes: 0 ok, 1 a check failed, 2 bad usage.
let arguments = CommandLine.arguments.dropFirst()
guard let folder = arguments.first, arguments.count == 1, !folder.hasPrefix("-") else {
  FileHandle.standardError.write(Data("usage: unplug-coreml FOLDER (with plan.json, files and vectors)\n".utf8))
  exit(2)
}
#if canImport(CoreML)
  let openers: [any Opener] = [CoreMLOpener()]
#else
  let openers: [any Opener] = []
#endif
do {
  let found = try ParityRun(folder: URL(fileURLWithPath: folder), openers: openers).run()
  FileHandle.standardOutput.write(Data(canonical(found) + [0x0a]))
  let rows = found["rows"]?.list ?? []
  exit(!rows.isEmpty && rows.allSatisfy { $0["status"] == .text("pass") } ? 0 : 1)
} catch {
  FileHandle.standardError.write(Data("\(line(of: error))\n".utf8))
  exit(2)
}
