"""The scheduler service: makes each due instant of a schedule one run, and keeps the broker's streams in being."""
