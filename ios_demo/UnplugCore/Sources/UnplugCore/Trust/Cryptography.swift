import Foundation

#if canImport(CryptoKit)
  import CryptoKit
#endif

/// What the verifier needs of a cryptographic library.
public protocol Cryptography: Sendable {
  /// SHA-256, 32 bytes.
  func sha256(_ bytes: Data) -> [UInt8]

  /// Whether a signature over SHA-256 of a message was made by a key of P-256.
  ///
  /// - Parameters:
  ///   - key: x and y, 64 bytes.
  ///   - signature: r and s, 64 bytes, both from 1 to the order less 1.
  func verifies(key: [UInt8], signature: [UInt8], message: Data) -> Bool
}

/// The one in plain Swift.
public struct PortableCryptography: Cryptography {
  public init() {}

  public func sha256(_ bytes: Data) -> [UInt8] { Sha256.digest(bytes) }

  public func verifies(key: [UInt8], signature: [UInt8], message: Data) -> Bool {
    guard let point = P256(bytes: key), signature.count == 64 else { return false }
    let (r, s) = (Words256(bigEndian: signature.prefix(32)), Words256(bigEndian: signature.suffix(32)))
    return point.verifies(r: r, s: s, digest: sha256(message))
  }
}

#if canImport(CryptoKit)
  /// Apple's.
  public struct AppleCryptography: Cryptography {
    public init() {}

    public func sha256(_ bytes: Data) -> [UInt8] { Array(CryptoKit.SHA256.hash(data: bytes)) }

    public func verifies(key: [UInt8], signature: [UInt8], message: Data) -> Bool {
      guard let known = try? CryptoKit.P256.Signing.PublicKey(rawRepresentation: key),
        let made = try? CryptoKit.P256.Signing.ECDSASignature(rawRepresentation: signature)
      else { return false }
      return known.isValidSignature(made, for: message)
    }
  }
#endif

/// The platform's own where there is one.
public let systemCryptography: any Cryptography = {
  #if canImport(CryptoKit)
    AppleCryptography()
  #else
    PortableCryptography()
  #endif
}()

/// SHA-256 as 64 hexadecimal digits.
public func sha256Hex(_ bytes: Data, _ cryptography: any Cryptography = systemCryptography) -> String {
  hex(cryptography.sha256(bytes))
}

func hex(_ bytes: some Sequence<UInt8>) -> String {
  let digits = Array("0123456789abcdef".utf8)
  var found: [UInt8] = []
  for byte in bytes { found += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
  return String(decoding: found, as: UTF8.self)
}
