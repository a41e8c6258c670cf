"""The `headrace` command."""

import argparse
import os
import sys
from importlib import import_module


def main() -> None:
    """Run one subcommand and exit with its code.

    Each module is imported when its command is given: `headrace up` must not wait for the others.
    """
    options, rest = _parser().parse_known_args()
    if rest and options.command != "smoke":
        _parser().error(f"unrecognized arguments: {' '.join(rest)}")
    sys.exit(_run(options, rest))


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    match options.command:
        case "up":
            code = import_module("headrace.local.up").run(os.environ, quiet_json=options.quiet_json)
        case "smoke":
            code = import_module("headrace.local.smoke").run(rest)
        case "env":
            code = import_module("headrace.local.control").connections(os.environ)
        case "logs":
            control = import_module("headrace.local.control")
            code = control.logs(os.environ, options.name, lines=options.lines, follow=options.follow)
        case "destroy":
            code = import_module("headrace.local.control").destroy(os.environ, yes=options.yes)
        case command:
            code = getattr(import_module("headrace.local.control"), command)(os.environ)
    return int(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headrace", description="Headrace on one machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start everything in the foreground; Ctrl-C stops it")
    up.add_argument("--quiet-json", action="store_true", help="print one JSON line once all is ready")
    commands.add_parser("status", help="show whether each service is ready")
    commands.add_parser("down", help="stop what `up` runs elsewhere")
    logs = commands.add_parser("logs", help="show the end of a log")
    logs.add_argument("name", help="a service, nats, postgres, valkey or demo_model")
    logs.add_argument("-n", "--lines", type=int, default=100, help="how many lines (default: %(default)s)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on with what is added")
    commands.add_parser("smoke", help="try a person's path against what runs", add_help=False)
    commands.add_parser("env", help="print how to reach PostgreSQL, NATS and Valkey, with their secrets")
    destroy = commands.add_parser("destroy", help="remove all data, logs and secrets")
    destroy.add_argument("--yes", action="store_true", help="really")
    return parser


if __name__ == "__main__":
    main()
