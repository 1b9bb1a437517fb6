"""`midspan audit verify`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from midspan_audit._errors import AuditLogError, printable
from midspan_audit._seal import Seal
from midspan_audit._verify import Head, verify
from midspan_sdk import Command

_HELP = "check that no record of an audit log was edited, removed or moved"


def run(arguments: Sequence[str]) -> int:
    """Check one log and print one line: to standard output what was found, to standard error what stopped the check.

    Returns:
        0 when the chain is whole, 2 when it is not or could not be checked.
    """
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as stop:  # argparse has printed help, or what is wrong with the arguments
        return 0 if stop.code in (None, 0) else 2
    path: Path = options.file
    expected: Head | None = options.head
    try:
        report = verify(path, Seal.from_file(options.key_file), expected=expected)
    except AuditLogError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if report.problem is not None:
        sys.stdout.write(f"{printable(path)}: line {report.bad_line}: {report.problem}\n")
        return 2
    records = "1 record" if report.records == 1 else f"{report.records} records"
    head = "" if report.head is None else f"; head {report.head}"
    sys.stdout.write(f"{printable(path)}: {records}, the chain is whole{head}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="midspan audit verify", description=f"{_HELP[0].upper()}{_HELP[1:]}.")
    parser.add_argument("file", type=Path, metavar="FILE", help="the log file")
    parser.add_argument("--key-file", type=Path, help="the key that the log was written with")
    parser.add_argument(
        "--head",
        type=_head_argument,
        metavar="SEQ:HASH",
        help="a head that an earlier verify printed; finds what was cut off at the end",
    )
    return parser


def _head_argument(text: str) -> Head:
    try:
        return Head.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


VERIFY: Final = Command(name="verify", help=_HELP, run=run)
