"""Files that hold secrets."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace a file as a whole; nobody but its owner may read it, not even for a moment."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)
