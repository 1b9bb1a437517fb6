"""The record that `uv tool` keeps of an environment: `uv-receipt.toml`.

Its form is uv's own and may grow. What is not known here is refused, never left out: an environment that is installed
again from half a record is not the same.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from midspan.errors import OperatorError

_SOURCES = ("specifier", "url", "git", "path", "directory", "editable")
_GIT_REFERENCES = ("rev", "tag", "branch")


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One requirement of a receipt.

    Attributes:
        name: the distribution's name.
        text: the requirement, or the path of an editable folder.
        editable: whether it is one.
    """

    name: str
    text: str
    editable: bool = False


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A receipt.

    Attributes:
        requirements: what the environment was made from.
        python: the Python that was asked for, or None.
        commands: the folder of its commands, or None when it has none.
        with_commands: the distributions whose commands are there; they may be normalized otherwise than in
            `requirements`.
        files: lines of the files of requirements that belong to it, by the option that names such a file.
        options: the options of uv, as its command line takes them.
    """

    requirements: tuple[Recorded, ...]
    python: str | None
    commands: Path | None
    with_commands: frozenset[str]
    files: Mapping[str, tuple[str, ...]]
    options: tuple[str, ...]


_FILES = {
    "constraints": "--constraints",
    "overrides": "--overrides",
    "excludes": "--excludes",
    "build-constraint-dependencies": "--build-constraints",
    "build-constraints": "--build-constraints",
}
_KNOWN = {"requirements", "python", "entrypoints", "options", *_FILES}


def read_receipt(path: Path) -> Receipt:
    """Read a receipt.

    Raises:
        OperatorError: it cannot be read, or holds what is not known here.
    """
    try:
        tool = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]
        return _receipt(tool)
    except _UnknownError as error:
        raise OperatorError(
            f"{path}: {error}, which midspan cannot keep: add the plugin yourself, with `uv tool install --with`"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OperatorError(f"{path}: this record of `uv tool` cannot be read: {error!r}") from error


class _UnknownError(Exception):
    pass


def _receipt(tool: dict[str, Any]) -> Receipt:
    for key in tool.keys() - _KNOWN:
        raise _UnknownError(f"it says {key!r}")
    entry_points: list[dict[str, str]] = tool.get("entrypoints", [])
    folders = {Path(entry["install-path"]).parent for entry in entry_points}
    return Receipt(
        requirements=tuple(map(_requirement, tool["requirements"])),
        python=tool.get("python"),
        commands=min(folders, default=None),
        with_commands=frozenset(entry["from"] for entry in entry_points if "from" in entry),
        files={
            option: tuple(one if isinstance(one, str) else _requirement(one).text for one in tool[key])
            for key, option in _FILES.items()
            if tool.get(key)
        },
        options=tuple(_options(tool.get("options", {}))),
    )


def _requirement(table: dict[str, Any] | str) -> Recorded:
    if isinstance(table, str):
        # As uv wrote it before 0.2.
        table = {"name": table}
    for key in table.keys() - {"name", "extras", "marker", "subdirectory", *_SOURCES}:
        raise _UnknownError(f"the requirement {table['name']!r} has {key!r}")
    name = table["name"]
    extras = f"[{','.join(table['extras'])}]" if table.get("extras") else ""
    marker = f" ; {table['marker']}" if "marker" in table else ""
    if "editable" in table:
        if marker:
            raise _UnknownError(f"the editable requirement {name!r} has a marker")
        return Recorded(name=name, text=f"{table['editable']}{extras}", editable=True)
    url = _url(table)
    source = f" @ {url}" if url else table.get("specifier", "")
    return Recorded(name=name, text=f"{name}{extras}{source}{marker}")


def _url(table: dict[str, Any]) -> str | None:
    for key in ("path", "directory"):
        if key in table:
            return Path(table[key]).as_uri()
    if "git" in table:
        return _git_url(table["git"])
    if "url" in table:
        return table["url"] + (f"#subdirectory={table['subdirectory']}" if "subdirectory" in table else "")
    return None


def _git_url(text: str) -> str:
    """Write what uv records of a repository, `URL?rev=v1&subdirectory=sub#COMMIT`, as a requirement does.

    The commit is where the reference was then; the reference is what was asked for.
    """
    url = urlsplit(text)
    query = {key: values[-1] for key, values in parse_qs(url.query).items()}
    subdirectory = query.pop("subdirectory", None)
    references = [query.pop(key) for key in _GIT_REFERENCES if key in query]
    if query:
        raise _UnknownError(f"a repository has {min(query)!r}")
    plain = url._replace(query="", fragment="").geturl()
    # urlunsplit leaves out the empty host of a file.
    plain = plain if "://" in plain else plain.replace(":", "://", 1)
    reference = f"@{references[0]}" if references else ""
    return f"git+{plain}{reference}" + (f"#subdirectory={subdirectory}" if subdirectory else "")


_RENAMED = {"config-settings": "config-setting"}


def _options(options: Mapping[str, Any]) -> Iterator[str]:
    for key, value in options.items():
        if key == "index":
            yield from _indexes(value)
        elif key == "build-isolation":
            yield from _isolation(value)
        elif value is True:
            yield f"--{key}"
        elif value is not False:
            for text in _texts(key, value):
                yield from (f"--{_RENAMED.get(key, key)}", text)


def _texts(key: str, value: object) -> Iterator[str]:
    """Write the value of an option: a text, several, or pairs of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _texts(key, one)
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            # Of one package: `PACKAGE:KEY=VALUE`.
            between = ":" if isinstance(inner, dict) else "="
            yield from (f"{name}{between}{text}" for text in _texts(key, cast("object", inner)))
    else:
        raise _UnknownError(f"its option {key!r} is {value!r}")


def _indexes(indexes: list[dict[str, Any]]) -> Iterator[str]:
    for index in indexes:
        if index.get("explicit") or index.get("format", "simple") != "simple":
            # Such a one is in the operator's uv.toml, which uv reads again.
            continue
        name = f"{index['name']}=" if "name" in index else ""
        yield from ("--default-index" if index.get("default") else "--index", f"{name}{index['url']}")


def _isolation(value: object) -> Iterator[str]:
    shared = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if value == "shared":
        yield "--no-build-isolation"
    elif shared.keys() == {"shared-package"}:
        for name in _texts("build-isolation", shared["shared-package"]):
            yield from ("--no-build-isolation-package", name)
    elif value != "isolate":
        raise _UnknownError(f"its option 'build-isolation' is {value!r}")
