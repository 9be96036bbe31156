"""Inputs in, outputs out: conditions, diffusion, the loop without torch, answers of exported files."""
