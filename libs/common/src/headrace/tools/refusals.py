"""Which audit events are acts, in words. Reading is none; what reaches out, changes, or leads round the guard is."""

import os
from collections.abc import Mapping
from typing import Any

_ACTS: Mapping[str, str] = {
    event: words
    for words, events in {
        "reach the network": """
            socket.connect socket.sendto socket.sendmsg socket.getaddrinfo socket.gethostbyname socket.gethostbyaddr
            socket.getnameinfo urllib.Request webbrowser.open""",
        "listen on the network": "socket.bind",
        "start a process": """
            subprocess.Popen os.system os.exec os.posix_spawn os.spawn os.fork os.forkpty os.startfile pty.spawn
            cpython.PyInterpreterState_New""",
        "signal a process": "os.kill os.killpg signal.pthread_kill",
        "start a thread": "_thread.start_new_thread _thread.start_joinable_thread",
        "remove a file": "os.remove os.rmdir",
        "move a file": "os.rename",
        "make a file or folder": "os.mkdir os.link os.symlink",
        "change a file": """
            os.truncate os.chmod os.chown os.chflags os.utime os.setxattr os.removexattr os.lockf""",
        "change the process": "os.chdir os.putenv os.unsetenv socket.sethostname sys.addaudithook",
        "load an extension of SQLite": "sqlite3.enable_load_extension sqlite3.load_extension",
        "call native code": """
            ctypes.dlopen ctypes.dlsym ctypes.dlsym/handle ctypes.call_function ctypes.cdata ctypes.cdata/buffer
            ctypes.PyObj_FromPtr""",
    }.items()
    for event in events.split()
}

_FAMILIES: Mapping[str, str] = {
    "ensurepip": "install a package",
    "fcntl": "control a device or a lock",
    "ftplib": "reach the network",
    "http": "reach the network",
    "imaplib": "reach the network",
    "nntplib": "reach the network",
    "poplib": "reach the network",
    "resource": "change the process",
    "shutil": "change a file",
    "smtplib": "send a mail",
    "syslog": "write to the system's log",
    "telnetlib": "reach the network",
    "tempfile": "make a file or folder",
}
"""Whole modules whose every event is an act."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def attempted(event: str, arguments: tuple[Any, ...]) -> str | None:
    """What an audit event tries to do to the world, such as `write the file '/tmp/x'`; None when it only looks."""
    match event:
        case "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & _WRITING and path != os.devnull
            return f"write the file {path!r:.200}" if writes else None
        case "sqlite3.connect":  # in memory too: its ATTACH would write any file, and no event tells of that
            return f"open the database {arguments[0]!r:.200}"
        case _:
            return _ACTS.get(event) or _FAMILIES.get(event.partition(".")[0])
