import Foundation

/// SHA-256, 32 bytes.
public func plainSha256(_ bytes: Data) -> [UInt8] { Sha256.digest(bytes) }

/// Whether a signature over a digest was made by a key of P-256.
///
/// - Parameters:
///   - key: x and y, 64 bytes.
///   - signature: r and s, 64 bytes.
///   - digest: SHA-256 of the message.
public func plainP256(key: [UInt8], signature: [UInt8], digest: [UInt8]) -> Bool {
  guard let point = P256(bytes: key), signature.count == 64 else { return false }
  let (r, s) = (Words256(bigEndian: signature.prefix(32)), Words256(bigEndian: signature.suffix(32)))
  return point.verifies(r: r, s: s, digest: digest)
}
