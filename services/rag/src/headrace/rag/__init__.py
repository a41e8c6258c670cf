"""The rag service: indexes the documents of knowledge bases, and finds the passages that answer a search."""
