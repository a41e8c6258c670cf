"""A service whose handler kills its process: `python -m tests.fakes.fatal_service`."""

import os

from headrace.common.app import serve
from headrace.common.db import Transaction
from headrace.common.settings import InfraSettings
from headrace.contracts.usage import UsageRecorded
from headrace.local.loopback import free_port
from tests.support.ledger_service import service


async def die(message: UsageRecorded, tx: Transaction) -> None:  # noqa: ARG001  (a handler's signature)
    if message.run_id == "fatal":
        os._exit(9)


if __name__ == "__main__":
    serve(service(die), InfraSettings(), port=free_port())
