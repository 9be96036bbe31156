import Foundation

#if canImport(CryptoKit)
  import CryptoKit
#else
  import PlainCryptography
#endif

/// SHA-256, 32 bytes.
func sha256(_ bytes: Data) -> [UInt8] {
  #if canImport(CryptoKit)
    Array(CryptoKit.SHA256.hash(data: bytes))
  #else
    plainSha256(bytes)
  #endif
}

/// Whether a signature over SHA-256 of a message was made by a key of P-256.
///
/// - Parameters:
///   - key: x and y, 64 bytes.
///   - signature: r and s, 64 bytes, both from 1 to the order less 1.
func p256(key: [UInt8], signature: [UInt8], message: Data) -> Bool {
  #if canImport(CryptoKit)
    guard let known = try? CryptoKit.P256.Signing.PublicKey(rawRepresentation: key),
      let made = try? CryptoKit.P256.Signing.ECDSASignature(rawRepresentation: signature)
    else { return false }
    return known.isValidSignature(made, for: message)
  #else
    plainP256(key: key, signature: signature, digest: plainSha256(message))
  #endif
}

/// SHA-256 as 64 hexadecimal digits.
public func sha256Hex(_ bytes: Data) -> String { hex(sha256(bytes)) }

func hex(_ bytes: some Sequence<UInt8>) -> String {
  let digits = Array("0123456789abcdef".utf8)
  var found: [UInt8] = []
  for byte in bytes { found += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
  return String(decoding: found, as: UTF8.self)
}
