"""What a quick decoder costs a picture, and what its mark survives."""
