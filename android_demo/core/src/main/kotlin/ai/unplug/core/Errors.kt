package ai.unplug.core

/**
 * Whatever the app tells its user in one line: what it is about, why it does not work, and what to do.
 *
 * ```
 * UnplugError
 * ├── InputError     the user asked for something that cannot be: a number out of range, an empty condition
 * ├── DataError      a file from outside is broken, too large or of another kind
 * └── Refused        a bundle that must not be used, with the word for why that every language has (bundle.Refused)
 * ```
 */
public open class UnplugError(
    public val what: String,
    public val why: String,
    public val fix: String,
) : Exception("$what: $why. $fix.")

/** Something that the user asked for and that cannot be. */
public class InputError(
    what: String,
    why: String,
    fix: String,
) : UnplugError(what, why, fix)

/** A file from outside that is broken, too large, or something else. */
public class DataError(
    what: String,
    why: String,
    fix: String,
) : UnplugError(what, why, fix)
