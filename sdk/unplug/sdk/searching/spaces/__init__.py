"""Search spaces, one a file."""
