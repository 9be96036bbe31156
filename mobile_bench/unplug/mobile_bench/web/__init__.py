"""The web target: a page that a phone opens, which checks, times and shows files, and sends its
rows back.
"""
