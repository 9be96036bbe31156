import Foundation

/// An error that a person reads: what it is about, why it does not go on, and what to do.
///
/// One sentence a part, without a full stop at the end of each. Every error that leaves this package is one of these, or a
/// `Refused`, which carries a verdict as well.
public struct Failure: Error, Equatable, CustomStringConvertible, Sendable {
  public let what: String
  public let why: String
  public let fix: String

  public init(_ what: String, _ why: String, _ fix: String = "") {
    self.what = Failure.plain(what)
    self.why = Failure.plain(why)
    self.fix = Failure.plain(fix)
  }

  public var description: String { fix.isEmpty ? "\(what): \(why)." : "\(what): \(why). \(fix)." }

  /// One printable line of bounded length: names from files are part of it.
  static func plain(_ text: String) -> String {
    let kept = text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7f ? " " : $0 }.prefix(400)
    var line = String.UnicodeScalarView()
    line.append(contentsOf: kept)
    return String(line)
  }
}

/// The line that a screen shows for any error.
public func line(of error: any Error) -> String {
  switch error {
  case let error as Failure: error.description
  case let error as Refused: error.description
  default: unwritten("The system", error).description
  }
}

/// The line for an error of the system's.
func unwritten(_ what: String, _ error: any Error) -> Failure {
  if isStorageFull(error) { return Failure(what, "it cannot be written, the storage is full", "Free some storage and try again") }
  return Failure(what, "it failed (\(error.localizedDescription))", "Try again")
}

/// Whether an error says that there is no room left.
func isStorageFull(_ error: any Error) -> Bool {
  if let error = error as? CocoaError {
    if error.code == .fileWriteOutOfSpace { return true }
    return (error.userInfo[NSUnderlyingErrorKey] as? any Error).map(isStorageFull) ?? false
  }
  let code = (error as? POSIXError)?.code
  return code == .ENOSPC || code == .EDQUOT
}
