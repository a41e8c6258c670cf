"""The gateway is the public API: keys, agents, and the doors for people and programs."""
