"""Settings of the rag service."""

from pathlib import Path

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class RagSettings(BaseSettings):
    """Where the index is, and how documents are cut. Prefix `HEADRACE_RAG_`."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_RAG_", extra="ignore", use_attribute_docstrings=True
    )

    port: int = Field(default=8013, ge=1, le=65_535)
    """The HTTP port."""
    data_dir: Path = Path(".headrace/lancedb")
    """The folder of the LanceDB index; replicas share it."""
    chunk_characters: int = Field(default=1_200, ge=100, le=20_000)
    """The longest passage that is indexed as one, in characters."""
    overlap_characters: int = Field(default=150, ge=0)
    """How much of a passage the next one repeats at most, in characters; at most half a passage."""
    ingest_concurrency: int = Field(default=2, ge=1, le=32)
    """Documents in hand at once in one replica."""
    upkeep_seconds: float = Field(default=60, gt=0)
    """The pause between two looks for writes to fold into the full-text index, in seconds."""

    @model_validator(mode="after")
    def _overlap_is_small(self) -> "RagSettings":
        if self.overlap_characters > self.chunk_characters // 2:
            raise ValueError(
                f"an overlap of {self.overlap_characters} characters is more than half of"
                f" {self.chunk_characters} characters"
            )
        return self
