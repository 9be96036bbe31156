"""Changes weights so that a model forgets, and judges nothing: methods, designs, and the kinds of
model that they work on.
"""
