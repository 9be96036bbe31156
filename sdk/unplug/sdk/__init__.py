"""Data, training, forgetting, auditing, releasing."""
