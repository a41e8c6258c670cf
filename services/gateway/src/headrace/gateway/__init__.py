"""Service gateway."""
