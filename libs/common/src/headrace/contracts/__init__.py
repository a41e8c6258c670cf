"""The language the services speak: messages, questions, subjects, streams and ids. Pydantic and the standard library only."""
