import Foundation

/// How near outputs are to what was expected; as unplug.export.metrics.
public struct Difference: Equatable, Sendable {
  public let exact: Bool
  /// 20 log10(max|reference| / rms(output - reference)); nothing where exact or undefined.
  public let psnr: Double?
  public let reason: String?
  public let maxAbsError: Double?

  public init(reference: [Float], output: [Float]) {
    func wrong(_ why: String) -> (Bool, Double?, String?, Double?) { (false, nil, why, nil) }
    var (squares, peak, largest) = (0.0, 0.0, 0.0)
    var found: (Bool, Double?, String?, Double?)?
    if reference.count != output.count {
      found = wrong("\(output.count) values where the reference has \(reference.count)")
    } else if !output.allSatisfy(\.isFinite) {
      found = wrong("the output holds NaN or infinity")
    } else if !reference.allSatisfy(\.isFinite) {
      found = wrong("the reference holds NaN or infinity")
    } else {
      for (got, wanted) in zip(output, reference) {
        let apart = Double(got) - Double(wanted)
        squares += apart * apart
        (peak, largest) = (max(peak, abs(Double(wanted))), max(largest, abs(apart)))
      }
      if squares == 0 { found = (true, nil, nil, 0) }
      if squares > 0, peak == 0 { found = wrong("the reference is zero everywhere and the output is not") }
    }
    let rms = sqrt(squares / Double(max(1, output.count)))
    (exact, psnr, reason, maxAbsError) = found ?? (false, 20 * log10(peak / rms), nil, largest)
  }

  /// Why a difference is too large, or nothing.
  public func verdict(_ threshold: Double) -> String? {
    if exact { return nil }
    guard let psnr else { return reason }
    return psnr < threshold ? "\(oneDigit(psnr)) dB is below \(ecmaScript(threshold)) dB" : nil
  }
}

/// The decibels that a precision must reach, as unplug.export.PRECISIONS has them.
public func thresholdDb(_ precision: String) -> Double? {
  switch precision {
  case "fp32": 100
  case "fp16": 60
  case "int8-weight", "int8-static", "int8-dynamic", "palette6", "palette8": 30
  default: nil
  }
}

/// The worst of some differences, each under the name of its output.
public func worst(_ found: [(name: String, difference: Difference)], _ threshold: Double) -> (db: Double?, reason: String?) {
  let reasons = found.compactMap { item in item.difference.verdict(threshold).map { "\(item.name): \($0)" } }
  return (found.compactMap(\.difference.psnr).min(), reasons.isEmpty ? nil : reasons.joined(separator: "; "))
}

/// A number with one digit after the point.
func oneDigit(_ value: Double) -> String {
  let tenths = Int((abs(value) * 10).rounded())
  return "\(value < 0 ? "-" : "")\(tenths / 10).\(tenths % 10)"
}
