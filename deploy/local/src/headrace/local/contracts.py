"""The published contracts: `python -m headrace.local.contracts [--check]` writes, or compares, `docs/api/`."""

import argparse
import base64
import json
import sys
from pathlib import Path
from typing import Any

from headrace.common.app import build
from headrace.common.settings import InfraSettings
from headrace.gateway.service import create_service as create_gateway
from headrace.gateway.settings import GatewaySettings
from headrace.local.asyncapi import asyncapi
from headrace.webhooks.service import create_service as create_webhooks
from headrace.webhooks.settings import WebhooksSettings

FOLDER = Path("docs/api")


def documents() -> dict[str, dict[str, Any]]:
    """Every contract by its file name."""
    nowhere = InfraSettings(
        nats_url="nats://nowhere.example",
        database_url="postgresql+asyncpg://nowhere.example/headrace",
        redis_url="redis://nowhere.example",
        secret_keys=base64.urlsafe_b64encode(bytes(32)).decode(),
    )
    return {
        "asyncapi.json": asyncapi(),
        "openapi.gateway.json": build(create_gateway(GatewaySettings()), nowhere).openapi(),
        "openapi.webhooks.json": build(create_webhooks(WebhooksSettings()), nowhere).openapi(),
    }


def main() -> int:
    """Write the documents, or say which are not current."""
    parser = argparse.ArgumentParser(prog="python -m headrace.local.contracts")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 where a document is not current"
    )
    check = parser.parse_args().check
    texts = {
        name: json.dumps(document, indent=1, sort_keys=True) + "\n" for name, document in documents().items()
    }
    if check:
        stale = [name for name, text in texts.items() if _read(FOLDER / name) != text]
        for name in stale:
            print(
                f"{FOLDER / name} is not current; run `make contracts`, read the difference, and commit it",
                file=sys.stderr,
            )
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (FOLDER / name).write_text(text)
        print(FOLDER / name)
    return 0


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
