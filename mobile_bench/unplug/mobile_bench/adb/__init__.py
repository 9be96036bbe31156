"""Android phones over adb: LiteRT's own benchmark binary, pushed, run, read back and cleaned away."""
