"""Ways to get an erased concept back, one a file."""
