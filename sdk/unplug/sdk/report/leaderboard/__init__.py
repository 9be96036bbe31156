"""The leaderboard as a page: its words, its figures, its tables."""
