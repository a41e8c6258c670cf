"""The HTTP edge: one file per resource."""
