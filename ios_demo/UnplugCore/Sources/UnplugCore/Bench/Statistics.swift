import Foundation

/// What a set of latencies comes to, in milliseconds; as unplug.mobile_bench.statistics.
public struct Summary: Equatable, Sendable {
  public let count: Int
  public let p50: Double
  public let p90: Double
  public let p95: Double
  /// Nothing below 1,000 samples: with fewer it is one or two outliers.
  public let p99: Double?
  public let mean: Double
  public let std: Double
  public let min: Double
  public let max: Double

  /// - Parameter latencies: milliseconds, at least one.
  public init(_ latencies: [Double]) {
    let sorted = latencies.sorted()
    count = sorted.count
    p50 = percentile(sorted, 50)
    p90 = percentile(sorted, 90)
    p95 = percentile(sorted, 95)
    p99 = sorted.count >= 1000 ? percentile(sorted, 99) : nil
    let mean = sorted.reduce(0, +) / Double(sorted.count)
    let squares = sorted.reduce(0) { $0 + ($1 - mean) * ($1 - mean) }
    self.mean = mean
    std = sorted.count > 1 ? sqrt(squares / Double(sorted.count - 1)) : 0
    (min, max) = (sorted.first!, sorted.last!)
  }

  public var json: Json {
    .object([
      "count": .number(Double(count)), "p50": .number(p50), "p90": .number(p90), "p95": .number(p95), "p99": number(p99),
      "mean": .number(mean), "std": .number(std), "min": .number(min), "max": .number(max),
    ])
  }
}

func number(_ value: Double?) -> Json { value.map(Json.number) ?? .null }
func text(_ value: String?) -> Json { value.map { .text(ExactText($0)) } ?? .null }

/// Percentile of ascending numbers, by linear interpolation between order statistics (type 7).
func percentile(_ sorted: [Double], _ percent: Double) -> Double {
  let place = Double(sorted.count - 1) * percent / 100
  let below = Int(place)
  let (low, high) = (sorted[below], sorted[min(below + 1, sorted.count - 1)])
  return low + (place - Double(below)) * (high - low)
}

public func median(_ values: [Double]) -> Double { percentile(values.sorted(), 50) }

/// Student's t at 97.5 %, for 1 to 30 degrees of freedom.
private let student = [
  12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306, 2.26216, 2.22814, 2.20099, 2.17881, 2.16037, 2.14479,
  2.13145, 2.11991, 2.10982, 2.10092, 2.09302, 2.08596, 2.07961, 2.07387, 2.06866, 2.0639, 2.05954, 2.05553, 2.05183, 2.04841,
  2.04523, 2.04227,
]

/// Geometric mean of the cold starts' medians, with Student's interval on their logarithms; nothing where a coarse clock says
/// zero, no interval of a single start.
public func typicalLatency(_ medians: [Double]) -> (value: Double, ends: [Double]?)? {
  guard let least = medians.min(), least > 0 else { return nil }
  let logs = medians.map { log($0) }
  let mean = logs.reduce(0, +) / Double(logs.count)
  let freedom = logs.count - 1
  guard freedom >= 1 else { return (exp(mean), nil) }
  let deviation = sqrt(logs.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / Double(freedom))
  let quantile = freedom <= student.count ? student[freedom - 1] : 1.96
  let half = quantile * deviation / sqrt(Double(logs.count))
  return (exp(mean), [exp(min(700, mean - half)), exp(min(700, mean + half))])
}

/// (largest - smallest) / smallest, or nothing where a coarse clock says zero.
public func relativeSpread(_ medians: [Double]) -> Double? {
  guard let least = medians.min(), least > 0 else { return nil }
  return (medians.max()! - least) / least
}

/// A part of a sustained run.
public struct BenchWindow: Equatable, Sendable, Identifiable {
  public let start: Double
  public let end: Double
  public let count: Int
  public let p50: Double
  public let p95: Double
  public var id: Double { start }

  var json: Json {
    .object([
      "start_s": .number(start), "end_s": .number(end), "count": .number(Double(count)), "p50": .number(p50), "p95": .number(p95),
      "temperature_c": .null,
    ])
  }
}

/// A sustained run in windows of equal length; those in which no run ended are left out.
///
/// - Parameters:
///   - ends: when each run ended, in seconds since the first began, ascending.
///   - latencies: the milliseconds of each run.
public func windows(ends: [Double], latencies: [Double], count: Int = 60) -> [BenchWindow] {
  guard let last = ends.last else { return [] }
  var places: [Int: [Double]] = [:]
  for (end, latency) in zip(ends, latencies) {
    let place = min(max(Int((end / last * Double(count)).rounded(.up)), 1), count) - 1
    places[place, default: []].append(latency)
  }
  return places.keys.sorted().map { place in
    let own = places[place]!.sorted()
    return BenchWindow(
      start: Double(place) * last / Double(count), end: Double(place + 1) * last / Double(count), count: own.count,
      p50: percentile(own, 50), p95: percentile(own, 95))
  }
}
