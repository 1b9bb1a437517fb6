"""The environment that the host runs in, and the tools that can change it."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

UV_RECEIPT = "uv-receipt.toml"
"""What `uv tool install` writes into an environment."""
PIPX_METADATA = "pipx_metadata.json"
"""What `pipx install` writes into an environment."""


def _virtual() -> bool:
    return sys.prefix != sys.base_prefix


def _externally_managed() -> bool:
    # PEP 668: the marker speaks of the interpreter's own environment, not of virtual ones made from it.
    return not _virtual() and (Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED").is_file()


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment; without arguments, the one of this process.

    Attributes:
        prefix: its folder.
        python: its interpreter.
        has_pip: whether that interpreter can import pip.
        externally_managed: whether something else than Python's tools looks after it (PEP 668).
        search: folders in which `uv` and `pipx` are looked for, as in `PATH`; None for `PATH`.
    """

    prefix: Path = field(default_factory=lambda: Path(sys.prefix))
    python: str = field(default_factory=lambda: sys.executable)
    has_pip: bool = field(default_factory=lambda: find_spec("pip") is not None)
    externally_managed: bool = field(default_factory=_externally_managed)
    search: str | None = None

    @property
    def uv_receipt(self) -> Path | None:
        """The record of `uv tool`, or None when it did not make this environment."""
        return self._own(UV_RECEIPT)

    @property
    def pipx_metadata(self) -> Path | None:
        """The record of pipx, or None when it did not make this environment."""
        return self._own(PIPX_METADATA)

    def program(self, name: str) -> str | None:
        """Return where a program is, or None. One in the working directory does not count."""
        found = shutil.which(name, path=self.search)
        return found if found is not None and Path(found).is_absolute() else None

    def _own(self, name: str) -> Path | None:
        path = self.prefix / name
        return path if path.is_file() else None
