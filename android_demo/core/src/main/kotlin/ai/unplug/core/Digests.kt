package ai.unplug.core

import java.security.MessageDigest

/** SHA-256 as 64 lower-case hexadecimal digits. */
public fun sha256(bytes: ByteArray): String = hex(MessageDigest.getInstance("SHA-256").digest(bytes))

internal fun hex(bytes: ByteArray): String {
    val found = StringBuilder(2 * bytes.size)
    for (byte in bytes) {
        val value = byte.toInt() and 0xff
        found.append("0123456789abcdef"[value shr 4]).append("0123456789abcdef"[value and 15])
    }
    return found.toString()
}

internal val DIGEST: Regex = Regex("[0-9a-f]{64}")

/** SHA-256 in hexadecimal digits, and nothing else. */
internal fun isDigest(text: String): Boolean = DIGEST.matches(text)
