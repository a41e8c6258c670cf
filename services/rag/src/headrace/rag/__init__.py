"""Service rag."""
