"""Benches: ratios measured side by side in one run, and one JSON object as the last line."""
