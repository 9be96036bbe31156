import Foundation

/// Where a face is, and what of the picture a model sees of it.
public enum Face {
  /// The margin on each side, as a fraction of the box of all landmarks, as unplug.sdk.drawing.inference cuts faces.
  public static let margin = 0.01

  /// The square around the box of a face's landmarks, cut off at the picture's edges.
  ///
  /// - Parameter points: x and y in pixels of the picture.
  public static func square(_ points: [SIMD2<Double>], in picture: Picture, margin: Double = margin) -> Picture? {
    guard let first = points.first else { return nil }
    let low = points.reduce(first) { pointwiseMin($0, $1) }
    let high = points.reduce(first) { pointwiseMax($0, $1) }
    let side = max(high.x - low.x, high.y - low.y) * (1 + 2 * margin)
    let middle = (low + high) / 2
    return picture.cropped(
      left: nearestEven(middle.x - side / 2), top: nearestEven(middle.y - side / 2), right: nearestEven(middle.x + side / 2),
      bottom: nearestEven(middle.y + side / 2))
  }
}

/// Whether somebody is over an age, as far as the limit of errors lets a model say.
public enum Decision: String, Sendable { case over, under, unsure }

/// The rule "over from here, under up to there, unsure between": `decision` in a manifest's `postprocessing`,
/// `unplug-decision/1`; as unplug.sdk.drawing.inference.Decision.
public struct Limits: Equatable, Sendable {
  /// T in years; a person who has had that birthday is over.
  public let age: Double
  /// The smallest P(age >= T) that is answered over, and the largest that is answered under.
  public let overFrom: Double
  public let underTo: Double
  /// Shares of minors called over and of adults called under, at most, of people like those that it was fitted on.
  public let maxFpr: Double
  public let maxFnr: Double
  /// The probability that this holds over the draw of those people; nothing where it holds on average over draws.
  public let confidence: Double?
  /// SHA-256 of the checkpoints and files that it was fitted on: about others it decides nothing.
  let models: Set<String>

  /// - Parameters:
  ///   - postprocessing: the manifest's field; nothing where it carries no limits.
  ///   - edges: borders of the model's age groups, in years.
  /// - Throws: `Failure` where it carries some that do not hold.
  init?(_ postprocessing: Json?, _ edges: [Double]) throws {
    guard let said = postprocessing?["decision"], said != .null else { return nil }
    guard said["schema"] == .text("unplug-decision/1"), let age = said["age"]?.double, let over = said["over_from"]?.double,
      let under = said["under_to"]?.double, under < over, let first = edges.first, let last = edges.last, first < age, age < last,
      let fpr = said["max_fpr"]?.double, let fnr = said["max_fnr"]?.double, let named = said["models"]?.list,
      case let hashes = named.compactMap({ $0["sha256"]?.string }), hashes.count == named.count
    else { throw Failure("The bundle", "its limits of a decision do not hold", "Get another release") }
    (self.age, overFrom, underTo, maxFpr, maxFnr, confidence) = (age, over, under, fpr, fnr, said["confidence"]?.double)
    models = Set(hashes)
  }

  /// What it holds, in a sentence.
  var held: String {
    func percent(_ share: Double) -> String { ecmaScript((1e4 * share).rounded() / 100) }
    let sure = confidence.map { "\(percent($0)) % confidence" } ?? "on average over samples of such people"
    return
      "For people like those it was fitted on: at most \(percent(maxFpr)) % of minors are called over \(ecmaScript(age)), "
      + "and at most \(percent(maxFnr)) % of adults under \(ecmaScript(age)) (\(sure))."
  }

  /// The answer to P(age >= T).
  func decide(_ over: Double) -> Decision { over >= overFrom ? .over : over <= underTo ? .under : .unsure }
}

/// P(age >= T) in double precision: the groups above T, and of the group around T the share above it.
///
/// p = sum over groups g of shares_g * clip((high_g - T) / (high_g - low_g), 0, 1)
func overProbability(_ shares: [Double], _ edges: [Double], _ age: Double) -> Double {
  zip(shares, zip(edges, edges.dropFirst())).reduce(0) { sum, item in
    let (share, (low, high)) = item
    return sum + share * min(1, max(0, (high - age) / (high - low)))
  }
}

/// How probable an age group or a label is.
public struct Share: Equatable, Sendable, Identifiable {
  public let name: String
  public let probability: Double
  public var id: String { name }
  public var percent: Int { Int((100 * probability).rounded()) }
}

/// What a predictor says of a picture: an age and its groups, or labels, the likeliest first.
public struct Answer: Equatable, Sendable {
  /// Nothing where the model says labels.
  public let years: Double?
  public let shares: [Share]
  /// Nothing where the manifest carries no limits, or none that were fitted on the file that answered.
  public let decision: Decision?
  /// What was decided in words, and what that holds, or why nothing was.
  public let said: String?
  public let held: String?

  init(years: Double? = nil, _ shares: [Share], _ decision: Decision? = nil, said: String? = nil, held: String? = nil) {
    (self.years, self.shares, self.decision, self.said, self.held) = (years, shares, decision, said, held)
  }

  /// The age, or the likeliest label with its probability.
  public var headline: String {
    years.map { "\(Int($0.rounded())) years" } ?? "\(shares[0].name), \(shares[0].percent) %"
  }
}

/// A predictor: a picture in, years or labels out; as unplug.sdk.drawing.inference has it.
public struct Predictor: Sendable {
  public let input: TensorSpec
  let edges: [Double]
  /// The labels of a classifier; nothing of an age predictor.
  let classes: [String]?
  public let limits: Limits?
  /// How many labels are told.
  static let likeliest = 5
  /// Where the eyes of a face go; nothing where the manifest has the centre square taken.
  public let frame: Frame?

  /// - Parameter manifest: the manifest of a bundle whose model is of the type `age` or `classes`.
  public init(manifest: Json) throws {
    let iospec = try IOSpec(manifest["iospec"], what: "manifest.json")
    let outputs = ["age": ["age_logits", "expected_age"], "classes": ["logits"]]
    guard let type = manifest["model_type"]?.string, let wanted = outputs[type], iospec.inputs.count == 1, iospec.inputs[0].isImage,
      iospec.inputs[0].axis("C") == 3, Set(wanted).isSubset(of: iospec.outputs.map(\.name))
    else { throw Failure("The bundle", "its model predicts neither an age nor a label", "Open one that does") }
    input = iospec.inputs[0]
    let said = manifest["postprocessing"]
    classes = type == "classes" ? said?["classes"]?.list?.compactMap(\.string) ?? [] : nil
    edges = said?["age_edges"]?.list?.compactMap { $0.double } ?? []
    limits = try Limits(manifest["postprocessing"], edges)
    frame = classes == nil ? try Frame(preprocessing: manifest["preprocessing"]) : nil
  }

  /// What the model is shown of a photograph: its one face, with the eyes where the manifest says; without a word of it the centre square.
  ///
  /// - Parameter faces: all that were found; without a frame nobody asks.
  /// - Throws: `Failure` where the face cannot be judged.
  func shown(_ picture: Picture, _ faces: [FoundFace]) throws -> Picture {
    let size = input.axis("H")
    return try frame.map { try picture.onlyFace(faces, size: size, frame: $0) } ?? picture.square(size)
  }

  /// Pixels of the centre square as the model takes them: low + (high - low) (byte / 255), channels first.
  public func tensor(_ picture: Picture) -> [Float] {
    conditionInput(picture.square(input.axis("H")), range: input.range ?? [0, 1])
  }

  /// - Parameter file: SHA-256 of the file that answered: what the limits must name.
  public func answer(_ outputs: Tensors, file: String) throws -> Answer {
    if let classes { return Answer(try labels(outputs, classes)) }
    guard let logits = outputs["age_logits"]?.floats, let years = outputs["expected_age"]?.floats?.first, years.isFinite else {
      throw Failure("The model", "it gave no age", "Choose another precision")
    }
    let shares = softmax(logits.map(Double.init))
    let groups = zip(groupNames(edges, count: shares.count), shares).map { Share(name: $0, probability: $1) }
    guard limits == nil || edges.count == shares.count + 1, shares.allSatisfy(\.isFinite) else {
      throw Failure("The model", "its groups are not those of its manifest", "Get another bundle")
    }
    guard let limits else { return Answer(years: Double(years), groups) }
    guard limits.models.contains(file) else {
      let why = "No decision: the limits in this bundle were fitted on other model files than the one used here."
      return Answer(years: Double(years), groups, held: why)
    }
    let decision = limits.decide(overProbability(shares, edges, limits.age))
    let said = ["over": "Over", "under": "Under", "unsure": "Unsure whether over"][decision.rawValue]! + " \(ecmaScript(limits.age))"
    return Answer(years: Double(years), groups, decision, said: said, held: limits.held)
  }

  private func labels(_ outputs: Tensors, _ classes: [String]) throws -> [Share] {
    guard let logits = outputs["logits"]?.floats, logits.count == classes.count, logits.count > 1, logits.allSatisfy(\.isFinite) else {
      throw Failure("The model", "its scores are not those of the classes in its manifest", "Get another bundle")
    }
    return likeliestLabels(logits.map(Double.init), classes)
  }
}

/// The labels that are told of these logits, the likeliest first.
func likeliestLabels(_ logits: [Double], _ classes: [String]) -> [Share] {
  let shares = softmax(logits)
  let order = shares.indices.sorted { (shares[$1], $0) < (shares[$0], $1) }
  return order.prefix(Predictor.likeliest).map { Share(name: classes[$0], probability: shares[$0]) }
}

func softmax(_ logits: [Double]) -> [Double] {
  let top = logits.max() ?? 0
  let powers = logits.map { exp($0 - top) }
  let sum = powers.reduce(0, +)
  return powers.map { $0 / sum }
}

/// Names of the groups between borders: [0, 5, 13] is "0–4" and "5 and over".
func groupNames(_ edges: [Double], count: Int) -> [String] {
  guard edges.count == count + 1 else { return (0..<count).map { "group \($0 + 1)" } }
  return (0..<count).map { group in
    let (low, next) = (ecmaScript(edges[group]), edges[group + 1] - 1)
    if group == count - 1 { return "\(low) and over" }
    return next <= edges[group] ? low : "\(low)–\(ecmaScript(next))"
  }
}
