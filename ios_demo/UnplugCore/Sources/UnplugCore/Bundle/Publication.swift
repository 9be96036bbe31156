/// What the signer of a bundle says about its place among the others.
public struct Publication: Equatable, Sendable {
  public let name: String
  public let release: Int
  /// `2027-05-01T00:00:00Z`, from when on it is refused; nothing never.
  public let expires: String?
  public let supersedes: [String]
  public let revokes: [String]
  /// Ids in the publisher's ledger of the requests to forget that it answers; they name nobody.
  public let requests: [String]

  private static let maxNamed = 1000

  /// Nothing where a field is missing, is too much, or has another form.
  init?(_ said: Json?) {
    guard let said, said.hasKeys(["name", "release", "expires", "supersedes", "revokes", "requests"]),
      let name = said["name"]?.text, Publication.isName(name), let release = said["release"]?.int, release >= 1,
      let supersedes = Publication.texts(said["supersedes"], isDigest), let revokes = Publication.texts(said["revokes"], isDigest),
      let requests = Publication.texts(said["requests"], Publication.isRequest)
    else { return nil }
    let expires = said["expires"]
    if expires != .null {
      guard let text = expires?.text, secondsSince1970(text) != nil else { return nil }
    }
    (self.name, self.release, self.expires) = (name.string, release, expires?.string)
    (self.supersedes, self.revokes, self.requests) = (supersedes, revokes, requests)
  }

  private static func texts(_ value: Json?, _ fits: (ExactText) -> Bool) -> [String]? {
    guard let items = value?.list, items.count <= maxNamed else { return nil }
    let texts = items.compactMap { $0.text.flatMap { fits($0) ? $0.string : nil } }
    return texts.count == items.count ? texts : nil
  }

  private static func isName(_ text: ExactText) -> Bool {
    guard (1...200).contains(text.utf8.count), Names.isLetterOrDigit(text.utf8[0]) else { return false }
    return text.utf8.allSatisfy { Names.isLetterOrDigit($0) || "_.+-".utf8.contains($0) }
  }

  private static func isRequest(_ text: ExactText) -> Bool {
    (1...200).contains(text.utf8.count) && text.utf8.allSatisfy { (0x20...0x7e).contains($0) }
  }
}

/// Seconds since 1970 of a time in UTC in the one spelling that manifests use, `2027-05-01T00:00:00Z`; nothing for any other,
/// or for a time that never was.
public func secondsSince1970(_ text: ExactText) -> Int? {
  let form = Array("dddd-dd-ddTdd:dd:ddZ".utf8)
  let bytes = text.utf8
  guard bytes.count == form.count else { return nil }
  var numbers = [0]
  for (byte, wanted) in zip(bytes, form) {
    if wanted == UInt8(ascii: "d") {
      guard (0x30...0x39).contains(byte) else { return nil }
      numbers[numbers.count - 1] = numbers.last! * 10 + Int(byte) - 0x30
    } else {
      guard byte == wanted else { return nil }
      numbers.append(0)
    }
  }
  let (year, month, day, hour, minute, second) = (numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5])
  let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
  let lengths = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
  guard year >= 1000, (1...12).contains(month), (1...lengths[month - 1]).contains(day), hour < 24, minute < 60, second < 60 else {
    return nil
  }
  // Days from 1970 by counting leap days of the years before.
  let before = year - 1
  let leaps = before / 4 - before / 100 + before / 400 - 477
  let days = (year - 1970) * 365 + leaps + lengths[..<(month - 1)].reduce(0, +) + day - 1
  return ((days * 24 + hour) * 60 + minute) * 60 + second
}
