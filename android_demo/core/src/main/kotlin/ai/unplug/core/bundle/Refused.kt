package ai.unplug.core.bundle

import ai.unplug.core.UnplugError

/** Why a bundle must not be used; the same words in every language, see docs/formats.md. */
public enum class Verdict(
    public val word: String,
) {
    ARCHIVE("archive"),
    LINK("link"),
    TOO_MANY("too-many"),
    UNSAFE_NAME("unsafe-name"),
    COLLISION("collision"),
    NO_BUNDLE("no-bundle"),
    TOO_LARGE("too-large"),
    UNSIGNED("unsigned"),
    ENVELOPE("envelope"),
    WRONG_TYPE("wrong-type"),
    UNKNOWN_KEY("unknown-key"),
    CERTIFICATE("certificate"),
    BAD_SIGNATURE("bad-signature"),
    STATEMENT("statement"),
    EXCLUDED("excluded"),
    MANIFEST("manifest"),
    WRONG_VERSION("wrong-version"),
    ANOTHER_PRODUCT("another-product"),
    EXPIRED("expired"),
    REVOKED("revoked"),
    SUPERSEDED("superseded"),
    DOWNGRADED("downgraded"),
    MISSING("missing"),
    UNLISTED("unlisted"),
    WRONG_SIZE("wrong-size"),
    CHANGED("changed"),
}

/** A bundle that must not be used. */
public class Refused(
    public val verdict: Verdict,
    why: String,
    fix: String = DISTRUST,
) : UnplugError("bundle", why, fix) {
    public companion object {
        internal const val DISTRUST = "Do not use it; get it again from its publisher"
        internal const val NEWER = "Get the newest release"
    }
}

internal fun need(
    holds: Boolean,
    verdict: Verdict,
    why: String,
) {
    if (!holds) throw Refused(verdict, why)
}
