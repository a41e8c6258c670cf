"""Service runner."""
