import Foundation

public enum Solver: String, Sendable, CaseIterable {
  case ddim
  case dpm = "dpm++"
}

/// A base's noise levels, and how steps are laid over them.
public struct Schedule: Sendable {
  public enum Prediction: String, Sendable { case epsilon, v = "v_prediction" }
  public enum Spacing: String, Sendable { case leading, trailing, linspace }
  /// The same scale at all levels, or none in pure noise and twice the scale at the end.
  public enum Guidance: String, Sendable { case constant, linear }

  public let alphasCumprod: [Double]
  public let finalAlphaCumprod: Double
  public let prediction: Prediction
  public let spacing: Spacing
  public let stepsOffset: Int
  public let guidance: Guidance

  init(_ value: Json?) throws {
    let wrong = Failure("pipeline.json", "its schedule has noise levels that do not fall, or an unknown prediction or spacing")
    guard let levels = value?["alphas_cumprod"]?.list?.compactMap({ $0.double }), (1...10_000).contains(levels.count),
      levels.count == value?["alphas_cumprod"]?.list?.count,
      let prediction = (value?["prediction"]?.string).flatMap(Prediction.init),
      let spacing = (value?["spacing"]?.string).flatMap(Spacing.init), let final = value?["final_alpha_cumprod"]?.double,
      let offset = value?["steps_offset"]?.int
    else { throw wrong }
    guard let guidance = Guidance(rawValue: value?["guidance"].map { $0.string ?? "" } ?? "constant") else {
      throw Failure("pipeline.json", "its schedule has an unknown guidance")
    }
    let least = prediction == .v ? 0 : 1e-8
    let fall = zip(levels, levels.dropFirst()).allSatisfy { $0 > $1 } && levels.last! >= least && levels[0] < 1
    guard fall, final > 0, final <= 1, levels.indices.contains(offset) else { throw wrong }
    (alphasCumprod, finalAlphaCumprod, stepsOffset) = (levels, final, offset)
    (self.prediction, self.spacing, self.guidance) = (prediction, spacing, guidance)
  }

  /// DPM-Solver++ keeps one timestep back, which it never visits, where steps do not trail.
  private func unseen(_ solver: Solver) -> Int { solver == .dpm && spacing != .trailing ? 1 : 0 }

  /// Most steps that a schedule has for a solver.
  public func mostSteps(_ solver: Solver) -> Int { alphasCumprod.count - unseen(solver) }

  func timesteps(_ steps: Int, _ solver: Solver) throws -> [Int] {
    let (levels, extra) = (alphasCumprod.count, unseen(solver))
    guard (1...max(1, levels - extra)).contains(steps), levels - extra >= 1 else {
      throw Failure("\(steps) steps", "out of range", "Use 1 to \(levels - extra) steps for this base and \(solver.rawValue)")
    }
    return (0..<steps).map { i in
      let left = steps - 1 + extra - i
      let time =
        switch spacing {
        case .leading: left * (levels / (steps + extra)) + stepsOffset
        case .trailing: nearestEven(Double(levels) - Double(i) * (Double(levels) / Double(steps))) - 1
        case .linspace: nearestEven(Double(left) * (Double(levels - 1) / Double(max(1, steps - 1 + extra))))
        }
      return min(time, levels - 1)
    }
  }
}

/// Rounds; halves go to the even neighbour.
func nearestEven(_ value: Double) -> Int { Int(value.rounded(.toNearestOrEven)) }

/// Sampling as a table: timesteps, shares of guidance, and five coefficients a step, computed in float64 and rounded to float32 once.
public struct SamplingTable: Sendable {
  public let timestep: [Int]
  let latentToData: [Float]
  let predictionToData: [Float]
  let keep: [Float]
  let data: [Float]
  let previous: [Float]
  let guidance: [Double]

  /// What DPM-Solver++ takes for a level of nothing but noise, whose logarithm is infinite.
  private static let leastAlpha = 0x1p-24

  public init(_ schedule: Schedule, steps: Int, solver: Solver) throws {
    timestep = try schedule.timesteps(steps, solver)
    let alpha = timestep.map { max(schedule.alphasCumprod[$0], solver == .dpm ? SamplingTable.leastAlpha : 0) }
    let noise = schedule.prediction == .epsilon
    let moves = solver == .dpm ? SamplingTable.dpm(alpha) : SamplingTable.ddim(schedule, timestep, alpha)
    latentToData = alpha.map { Float(noise ? 1 / sqrt($0) : sqrt($0)) }
    predictionToData = alpha.map { Float(noise ? -sqrt(1 - $0) / sqrt($0) : -sqrt(1 - $0)) }
    keep = moves.keep.map { Float($0) }
    data = moves.data.map { Float($0) }
    previous = moves.previous.map { Float($0) }
    let levels = Double(schedule.alphasCumprod.count)
    guidance = timestep.map { schedule.guidance == .linear ? 2 * (1 - Double($0) / levels) : 1 }
  }

  /// The scale of guidance at a step (Wang et al., "Analysis of Classifier-Free Guidance Weight Schedulers", 2024).
  func scale(_ step: Int, _ asked: Double) -> Float { Float(1 + (asked - 1) * guidance[step]) }

  private typealias Moves = (keep: [Double], data: [Double], previous: [Double])

  /// Song et al., "Denoising Diffusion Implicit Models", 2021, equation 12 with sigma = 0.
  private static func ddim(_ schedule: Schedule, _ times: [Int], _ alpha: [Double]) -> Moves {
    let stride = schedule.alphasCumprod.count / times.count
    let after = times.map { $0 < stride ? schedule.finalAlphaCumprod : schedule.alphasCumprod[$0 - stride] }
    let keep = zip(alpha, after).map { sqrt((1 - $1) / (1 - $0)) }
    let data = alpha.indices.map { sqrt(after[$0]) - sqrt(alpha[$0]) * keep[$0] }
    return (keep, data, alpha.map { _ in 0 })
  }

  /// Lu et al., "DPM-Solver++", 2022, algorithm 2: second order but for the first step and the last, which ends without noise.
  private static func dpm(_ alpha: [Double]) -> Moves {
    let last = alpha.count - 1
    let logs = alpha.map { 0.5 * log($0 / (1 - $0)) }
    func step(_ s: Int) -> Double { logs[s + 1] - logs[s] }
    let keep = alpha.indices.map { $0 == last ? 0 : sqrt((1 - alpha[$0 + 1]) / (1 - alpha[$0])) }
    let pull = alpha.indices.map { $0 == last ? 1 : sqrt(alpha[$0 + 1]) * -expm1(-step($0)) }
    let previous = alpha.indices.map { $0 == 0 || $0 == last ? 0 : -0.5 * pull[$0] * step($0) / step($0 - 1) }
    return (keep, zip(pull, previous).map { $0 - $1 }, previous)
  }

  /// One step in float32: the next latent, and this step's data.
  func advance(_ s: Int, latent: [Float], prediction: [Float], before: [Float]) -> (latent: [Float], data: [Float]) {
    var (next, found) = (latent, latent)
    for i in latent.indices {
      let own = latentToData[s] * latent[i] + predictionToData[s] * prediction[i]
      found[i] = own
      next[i] = keep[s] * latent[i] + data[s] * own + previous[s] * before[i]
    }
    return (next, found)
  }
}

/// negative + guidance (prediction - negative) in float32 (Ho and Salimans, 2022, equation 6).
func guided(_ prediction: [Float], _ negative: [Float], _ guidance: Float) -> [Float] {
  zip(prediction, negative).map { $1 + guidance * ($0 - $1) }
}
