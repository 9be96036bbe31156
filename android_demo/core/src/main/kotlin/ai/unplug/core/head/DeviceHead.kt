package ai.unplug.core.head

/** A head that a phone adds people to and forgets them from: docs/head.md. */
public class DeviceHead private constructor() {
    /** With one more picture. */
    public fun add(
        name: String,
        features: DoubleArray,
        age: Double,
    ): DeviceHead = TODO("$name $features $age")

    /** Without a picture, as if it had never been there, bit for bit. */
    public fun remove(
        name: String,
        features: DoubleArray,
        age: Double,
    ): DeviceHead = TODO("$name $features $age")

    public companion object {
        /** Reads `head.safetensors`. */
        public fun of(bytes: ByteArray): DeviceHead = TODO("$bytes")
    }
}
