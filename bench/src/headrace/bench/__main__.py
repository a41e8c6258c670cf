"""`python -m headrace.bench NAME`, from the root of the repository: run one bench; a table for people, then one JSON line for programs."""

import argparse
import asyncio
import json
import sys
from importlib import import_module

BENCHES = ("overhead", "journal", "recovery")


def main() -> None:
    """Run the bench that is named; exit 1 where an aim was missed or not measured."""
    parser = argparse.ArgumentParser(prog="python -m headrace.bench", description="Measure Headrace.")
    parser.add_argument("name", choices=BENCHES)
    parser.add_argument("--count", type=int, default=200, help="pairs of calls, runs of each side, or kills")
    options = parser.parse_args()
    report = asyncio.run(import_module(f"headrace.bench.{options.name}").measure(options.count))
    print(json.dumps(report.as_json(options.name)))
    sys.exit(0 if report.ok else 1)


if __name__ == "__main__":
    main()
