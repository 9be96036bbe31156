"""Studies of several models at once: they compute and write records, and draw nothing."""
