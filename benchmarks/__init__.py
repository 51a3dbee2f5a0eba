"""Measurements. Nothing here is a test: every figure is a ratio to something that ran beside it."""
