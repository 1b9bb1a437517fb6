"""What the audit log raises.

MidspanError
└── AuditLogError    the log cannot be opened, written or trusted
"""

from __future__ import annotations

from pathlib import Path

from midspan_sdk.errors import MidspanError


class AuditLogError(MidspanError):
    """The audit log, or its key, cannot be used.

    Attributes:
        path: the file.
        problem: what is wrong with it and what to do, in one line.
    """

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"audit: {printable(path)}: {problem}")


def printable(path: Path) -> str:
    """Return a path that any terminal and any encoding can take."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(path))


def os_problem(error: OSError) -> str:
    """Return the operating system's words for an error, without the path."""
    return error.strerror or type(error).__name__
