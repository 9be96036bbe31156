"""Many models to learn about methods: run from a checkout, never needed for a request, and not in
the wheel.
"""
