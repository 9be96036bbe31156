"""Data, faces, and the training that makes a first checkpoint of them: forgets nothing."""
