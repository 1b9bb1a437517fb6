"""An installed distribution, with what locking needs of it.

importlib-metadata finds it; its files are read here, since a mail parser over fifty METADATA files takes longer than
hashing all that they describe.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import importlib_metadata
from packaging.utils import canonicalize_name

from midspan.errors import OperatorError

_VERSION = re.compile(r"^Version:[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_REQUIRES = re.compile(r"^Requires-Dist:[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)


class _Metadata(Protocol):
    @property
    def version(self) -> str: ...
    @property
    def requires(self) -> list[str] | None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """A distribution that is installed: the first of its name on the import path.

    Attributes:
        name: in normal form.
        version: as its metadata has it.
        requires: its `Requires-Dist` lines.
        info: its `.dist-info` or `.egg-info`, a folder or (old eggs) a file.
    """

    name: str
    version: str
    requires: tuple[str, ...]
    info: Path

    @property
    def root(self) -> Path:
        """The folder that the paths in its RECORD start from."""
        return self.info.parent

    def recorded(self) -> list[str]:
        """Return the paths that its RECORD lists; none when it has no RECORD."""
        try:
            with (self.info / "RECORD").open(encoding="utf-8", newline="") as lines:
                return [row[0] for row in csv.reader(lines) if row]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise OperatorError(f"{self.name} {self.version}: its RECORD cannot be read: {error}") from error

    def top_level(self) -> list[str]:
        """Return the names in its `top_level.txt`, which older tools write."""
        try:
            return (self.info / "top_level.txt").read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError):
            return []


def installed(name: str) -> Distribution | None:
    """Find an installed distribution; None when there is none of that name.

    Raises:
        OperatorError: its metadata cannot be read, or it is no folder of files (an egg in an archive).
    """
    try:
        found = importlib_metadata.distribution(name)
    except importlib_metadata.PackageNotFoundError:
        return None
    info = cast("object", getattr(found, "_path", None))
    if not isinstance(info, Path):
        raise OperatorError(f"{name} is installed as an archive, whose files cannot be locked; install it unpacked")
    try:
        # An absolute path, as the working directory may change.
        return _from_wheel(name, info.absolute()) or _from_egg(name, info.absolute(), found)
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"the metadata of {name} cannot be read: {error}") from error


def _from_wheel(name: str, info: Path) -> Distribution | None:
    try:
        headers = (info / "METADATA").read_text(encoding="utf-8").replace("\r\n", "\n").partition("\n\n")[0]
    except (FileNotFoundError, NotADirectoryError):
        return None
    version = _VERSION.search(headers)
    return Distribution(
        name=canonicalize_name(name),
        version=version[1] if version else "unknown",
        requires=tuple(_REQUIRES.findall(headers)),
        info=info,
    )


def _from_egg(name: str, info: Path, found: _Metadata) -> Distribution:
    # Its requirements stand in a file and a syntax of their own.
    return Distribution(
        name=canonicalize_name(name), version=found.version, requires=tuple(found.requires or ()), info=info
    )
