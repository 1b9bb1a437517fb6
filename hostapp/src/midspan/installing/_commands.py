"""The commands that change an environment."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from midspan.errors import OperatorError

_USERINFO = re.compile(r"(?<=://)(?P<user>[^/@\s:]*)(?P<password>:[^/@\s]*)?@")
_STDERR = 2


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of an installer.

    Attributes:
        arguments: the program, with its whole path, and its arguments.
        called: how a message calls it, such as `pip install`.
        environment: variables that it gets beside those of this process.
        failed: what is to be known when it fails, beside its exit code.
    """

    arguments: tuple[str, ...]
    called: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    failed: str = "what it said stands above"

    def __str__(self) -> str:
        """Write it as for a shell, without credentials."""
        words = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*words, *(shlex.quote(_without_credentials(argument)) for argument in self.arguments)])

    def run(self, folder: Path) -> None:
        """Run it to its end; what it writes goes to stderr as it is.

        Args:
            folder: where it runs. Not the working directory: a cloned repository may hold settings of an installer.

        Raises:
            OperatorError: it could not be started, or failed.
        """
        environment = {**os.environ, **self.environment}
        try:
            done = subprocess.run(self.arguments, stdout=_STDERR, cwd=folder, env=environment, check=False)  # noqa: S603 - no shell, and no argument that could be taken for another option
        except OSError as error:
            raise OperatorError(f"`{self.called}` cannot be started: {error.strerror or error}") from error
        if done.returncode:
            raise OperatorError(f"`{self.called}` failed with exit code {done.returncode}; {self.failed}")


def added(variable: str, path: Path) -> dict[str, str]:
    """Return an environment variable that holds one more file beside those that it names already."""
    return {variable: " ".join(filter(None, [os.environ.get(variable), str(path)]))}


def _without_credentials(argument: str) -> str:
    def shown(userinfo: re.Match[str]) -> str:
        is_plain = userinfo["password"] is None and userinfo.string[: userinfo.start()].endswith("ssh://")
        return userinfo[0] if is_plain else "***@"

    return _USERINFO.sub(shown, argument)
