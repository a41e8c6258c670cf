"""The system user that runs PostgreSQL where we are root, since it refuses to be root itself."""

import contextlib
import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

from headrace.local.server import StartError

_NAME = "headrace-postgres"
_MAKE = ("useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", _NAME)


def unprivileged_user() -> str | None:
    """The user to run PostgreSQL as, made where it is missing; None where we are not root.

    Raises:
        StartError: It cannot be made.
    """
    if os.geteuid() != 0:
        return None
    if not _exists():
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(_MAKE, capture_output=True, check=False)  # noqa: S603  (a constant)
    if not _exists():
        raise StartError(
            f"PostgreSQL does not run as root, and the system user {_NAME} could not be made. "
            f"What to do: run Headrace as an ordinary user, or make that user with `useradd --system {_NAME}`."
        )
    return _NAME


def hand_over(path: Path, user: str) -> None:
    """Give a file or folder to a user."""
    shutil.chown(path, user, user)


def let_in(path: Path, *, whole: bool = False) -> list[Path]:
    """Let other users reach a folder: its parents become searchable, though not readable.

    Args:
        path: The folder.
        whole: True lets them read all that is inside, too.

    Returns:
        The folders and files whose mode was changed.
    """
    path = path.resolve()
    changed = [folder for folder in (path, *path.parents) if _allow(folder, stat.S_IXOTH)]
    if whole and not path.stat().st_mode & stat.S_IROTH:
        changed += [inside for inside in (path, *path.rglob("*")) if _allow(inside, _as_owner(inside))]
    return changed


def _as_owner(path: Path) -> int:
    return stat.S_IROTH | (stat.S_IXOTH if path.stat().st_mode & stat.S_IXUSR else 0)


def _allow(path: Path, bits: int) -> bool:
    mode = path.stat().st_mode
    if mode & bits == bits:
        return False
    path.chmod(stat.S_IMODE(mode) | bits)
    return True


def _exists() -> bool:
    with contextlib.suppress(KeyError):
        return bool(pwd.getpwnam(_NAME))
    return False
