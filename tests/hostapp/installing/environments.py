"""Environments that are folders alone: what tools leave in them, and tools that are not run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from midspan.installing import Environment, commands_for


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder with an environment and programs.

    Attributes:
        folder: it.
        environment: whose programs are in `bin`, and nowhere else.
    """

    folder: Path
    environment: Environment

    def commands(self, *specs: str, editable: Sequence[str] = (), upgrade: bool = False) -> list[list[str]]:
        """Return the words of the commands that would install; the folders are called BIN, HERE and TEMP."""
        lines = commands_for(specs, editable=editable, upgrade=upgrade, environment=self.environment)
        return [[self._shown(word) for word in shlex.split(line)] for line in lines]

    def _shown(self, word: str) -> str:
        word = word.replace(str(self.folder / "bin"), "BIN").replace(str(self.folder), "HERE")
        return re.sub(r"/\S*/midspan-install-[^/]*", "TEMP", word)


def place(
    folder: Path,
    *,
    programs: Sequence[str] = ("uv", "pipx"),
    has_pip: bool = True,
    externally_managed: bool = False,
    receipt: str | None = None,
    injected: Sequence[str] | None = None,
) -> Place:
    """Make an environment `venvs/midspan` in a folder.

    Args:
        folder: where.
        programs: what is on its path.
        has_pip: whether its interpreter has pip.
        externally_managed: whether the system looks after it.
        receipt: what `uv tool` recorded, or None when another made it.
        injected: what pipx recorded, or None when another made it.
    """
    search, prefix = folder / "bin", folder / "venvs" / "midspan"
    for directory in (search, prefix):
        directory.mkdir(parents=True)
    for program in programs:
        (search / program).touch(mode=0o755)
    if receipt is not None:
        (prefix / "uv-receipt.toml").write_text(receipt, encoding="utf-8")
    if injected is not None:
        record = json.dumps({"injected_packages": {name: {} for name in injected}})
        (prefix / "pipx_metadata.json").write_text(record, encoding="utf-8")
    environment = Environment(
        prefix=prefix,
        python="/python",
        has_pip=has_pip,
        externally_managed=externally_managed,
        search=str(search),
    )
    return Place(folder=folder, environment=environment)
