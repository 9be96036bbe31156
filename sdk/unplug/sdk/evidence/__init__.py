"""What was forgotten, in numbers with intervals: attacks, distances to models that never saw it,
and the statistics under them.
"""
