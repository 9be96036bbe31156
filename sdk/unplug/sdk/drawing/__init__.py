"""Inputs in, outputs out: conditions, diffusion, the loop without torch, and answers of exported
files.
"""
