"""Side-by-side measurements; run with `make bench`."""
