"""The runner runs admitted agents: it calls models and tools, and tells what happens."""
