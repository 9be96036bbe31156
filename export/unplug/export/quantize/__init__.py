"""Fewer bits a number: what is done to a model before its conversion, and to each target's file after it."""
