"""The tools SDK: what a tool is, what it may do to the world, and how it is made once."""
