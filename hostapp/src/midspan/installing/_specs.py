"""What can be installed: requirements, URLs and local paths, as pip takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from midspan.errors import OperatorError

HOST = ("midspan", "midspan-sdk")
"""The distributions that a plugin never replaces."""

_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_WITH_EXTRAS = re.compile(r"(?P<path>.*?)(?P<extras>\[[\w\s,.-]*\])?", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One thing to install.

    Attributes:
        text: as an installer takes it; a local path is absolute.
        name: the distribution's normalized name, or None when only its build would tell.
        bound: the versions that it admits; None when it is a path or a URL.
        editable: whether it is a folder whose sources stay where they are.
    """

    text: str
    name: str | None = None
    bound: str | None = None
    editable: bool = False


def read_specs(specs: Sequence[str], editable: Sequence[str]) -> list[Spec]:
    """Read what an operator wants installed.

    Args:
        specs: requirements such as `midspan-pii>=0.2`, URLs, and paths of archives or project folders.
        editable: paths of project folders.

    Raises:
        OperatorError: one of them is an option or cannot be read, a path is not there, or midspan itself is meant.
    """
    found = [*(_spec(text.strip()) for text in specs), *(_editable(path) for path in editable)]
    for spec in found:
        if spec.name in HOST:
            raise OperatorError(
                f"{spec.name} is the host itself, not a plugin: upgrade it with the tool that installed it"
            )
    return found


def _spec(text: str) -> Spec:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    if not text or text.startswith("-"):
        # An installer would take it for an option, such as another index.
        raise OperatorError(f"{text!r} is not a requirement: name a package, a path or a URL")
    if _is_path(text):
        path, extras = _path(text)
        return Spec(text=f"{path}{extras}", name=_name_at(path))
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        if _URL.match(text):
            return Spec(text=text)
        reason = str(error).splitlines()[0]
        raise OperatorError(f"{text!r} is not a requirement, such as 'midspan-pii>=0.2': {reason}") from None
    bound = str(requirement.specifier) if requirement.url is None else None
    return Spec(text=text, name=canonicalize_name(requirement.name), bound=bound)


def _editable(text: str) -> Spec:
    path, extras = _path(text)
    if not _is_project(path):
        raise OperatorError(f"{text!r} cannot be installed editable: it is not a folder with a pyproject.toml")
    return Spec(text=f"{path}{extras}", name=_name_at(path), editable=True)


def _is_path(text: str) -> bool:
    """Tell a path from a requirement by pip's rule: a separator or a dot makes a folder, a suffix an archive."""
    if _URL.match(text) or " @ " in text:
        return False
    plain = _without_extras(text)[0]
    return plain.endswith(_ARCHIVES) or plain.startswith((".", "~")) or "/" in plain or "\\" in plain


def _path(text: str) -> tuple[Path, str]:
    """Return the absolute path, and the extras written behind it."""
    plain, extras = (text, "") if Path(text).exists() else _without_extras(text)
    path = Path(plain).expanduser().absolute()
    if not path.exists():
        raise OperatorError(f"{plain!r} is neither a file nor a folder")
    if path.is_dir() and not _is_project(path):
        raise OperatorError(f"{plain!r} cannot be installed: it is a folder without a pyproject.toml")
    return path, extras


def _without_extras(text: str) -> tuple[str, str]:
    parts = _WITH_EXTRAS.fullmatch(text)
    assert parts is not None
    return parts["path"], parts["extras"] or ""


def _is_project(path: Path) -> bool:
    return (path / "pyproject.toml").is_file() or (path / "setup.py").is_file()


def _name_at(path: Path) -> str | None:
    """Return the name of the distribution in an archive or a folder, if it can be known without a build."""
    from packaging.utils import (
        InvalidSdistFilename,
        InvalidWheelFilename,
        canonicalize_name,
        parse_sdist_filename,
        parse_wheel_filename,
    )

    if path.is_dir():
        name = _project_name(path / "pyproject.toml")
        return None if name is None else canonicalize_name(name)
    try:
        return (parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename)(path.name)[0]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def _project_name(file: Path) -> str | None:
    import tomllib

    try:
        name: object = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        # The installer says in its own words what is wrong with it.
        return None
    return name if isinstance(name, str) else None
