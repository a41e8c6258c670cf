"""Service usage."""
