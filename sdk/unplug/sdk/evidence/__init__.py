"""Numbers with intervals: audits, age assurance, fleets, statistics; lets nothing ship."""
