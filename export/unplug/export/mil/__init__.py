"""ML Programs (Core ML's ``.mlpackage``) read and evaluated operator by operator with torch, on any
machine.
"""
