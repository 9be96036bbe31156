"""Changes weights so that a model forgets, and judges nothing: kinds of model, methods, designs."""
