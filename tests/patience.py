"""How long a test waits for what should happen at once."""

PATIENCE = 120.0
"""Seconds after which a test that hangs fails: many times what a busy machine takes for the slowest of them."""
