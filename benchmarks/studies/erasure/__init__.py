"""Concepts with an oracle: a base that was taught what the shipped one never saw, the same without
one of them, and judges that see them.
"""
