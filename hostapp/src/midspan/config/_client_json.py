"""Servers from the config of an MCP client: the `mcpServers` of a JSON file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from midspan.config._faults import fault_of
from midspan.config._servers import ServerTable
from midspan.config._source import ConfigSource
from midspan.config._tables import NAME, NAME_FORM
from midspan.config._values import FILE
from midspan.config._values import NAME as VARIABLE
from midspan.errors import ConfigError

TOP_KEY: Final = "mcpServers"
_TAKEN_OVER: Final = ("args", "command", "cwd", "env", "headers", "url")
_NOTHING: Final[tuple[object, ...]] = (None, [], {})
"""Clients write these for what is not there, whichever kind of server it is."""
_SECRETS: Final = frozenset({"env", "headers"})
_TRANSPORTS: Final = {"http": "http", "sse": "sse", "streamable-http": "http", "streamableHttp": "http"}
_TYPE_FORM: Final = 'must be "stdio", "http", "streamable-http" or "sse"'
_DOLLAR = re.compile(
    rf"\$(?:\{{(?:(?:env:)?(?P<name>{VARIABLE})(?::-(?P<default>[^}}]*))?|(?P<kind>[A-Za-z]+):[^}}]*)\}})?", re.ASCII
)


def servers_from_client_json(path: Path) -> dict[str, ServerTable]:
    """Read the servers of a client's config file, in its order.

    It takes `command`, `args`, `env`, `cwd`, `url`, `headers` and `type` of each; clients have many keys beside these,
    which are ignored. `${NAME}`, `${NAME:-default}` and `${env:NAME}` are variables there; each other `$`, and `file:`,
    is text. What a client writes in a form of its own, such as `${input:token}`, is refused.

    Args:
        path: the file; JSON with an object `mcpServers`, as Claude, Cursor and others have it.

    Returns:
        Tables as midspan.toml would have them. For their `resolved`, `source` is `ConfigSource.of(path)` and `place`
        is `("mcpServers", name)`.

    Raises:
        ConfigError: the file cannot be read, or a server in it cannot be used; names the file, the key and the cause.
    """
    source = ConfigSource.of(path)
    tables = _object(_read(source, path), source)
    servers = _object(tables.get(TOP_KEY), source, TOP_KEY)
    return {name: _table(name, value, source) for name, value in servers.items()}


def _read(source: ConfigSource, path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise source.error("no such file") from None
    except OSError as error:
        raise source.error(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise source.error("is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg}"
        raise ConfigError(problem, file=path, line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise source.error("is nested too deeply") from None


def _object(value: object, source: ConfigSource, *place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        problem = "is missing" if value is None and place else "must be an object"
        raise source.error(f"{problem}; accepted: {{{json.dumps(TOP_KEY)}: {{NAME: {{...}}}}}}", *place)
    return cast("dict[str, Any]", value)


def _table(name: str, value: object, source: ConfigSource) -> ServerTable:
    place = (TOP_KEY, name)
    if not NAME.fullmatch(name):
        raise source.error(NAME_FORM, *place)
    given = _object(value, source, *place)
    table = {
        key: _written(key, given[key], source, *place)
        for key in _TAKEN_OVER
        if key in given and given[key] not in _NOTHING
    }
    table |= _transport(given, source, *place)
    try:
        return ServerTable.model_validate(table)
    except ValidationError as error:
        fault = fault_of(error, ServerTable)
        raise source.error(fault.problem, *place, *fault.keys) from error


def _transport(given: Mapping[str, Any], source: ConfigSource, *place: str) -> dict[str, str]:
    kind = given.get("type")
    if kind is None:
        return {}
    if kind == "stdio":
        if given.get("command") is None:
            raise source.error('is "stdio", and the server has no `command`', *place, "type")
        return {}
    if not isinstance(kind, str) or kind not in _TRANSPORTS:
        raise source.error(_TYPE_FORM, *place, "type")
    if given.get("url") is None:
        raise source.error("is that of a server with a `url`, and this one has none", *place, "type")
    return {"transport": _TRANSPORTS[kind]}


def _written(key: str, value: Any, source: ConfigSource, *place: str) -> Any:
    """Write a value as midspan.toml has it; what is of a wrong type, the model refuses."""

    def written(text: Any, *keys: str | int) -> Any:
        try:
            return _text(text, may_be_file=key in _SECRETS) if isinstance(text, str) else text
        except ValueError as error:
            raise source.error(str(error), *place, key, *keys) from None

    if key == "args" and isinstance(value, list):
        return [written(text, index) for index, text in enumerate(cast("list[Any]", value))]
    if key in _SECRETS and isinstance(value, dict):
        return {name: written(text, name) for name, text in cast("dict[str, Any]", value).items()}
    return written(value)


def _text(text: str, *, may_be_file: bool) -> str:
    def reference(found: re.Match[str]) -> str:
        name, default, kind = found["name"], found["default"], found["kind"]
        if kind is not None:
            raise ValueError(f"has ${{{kind}:...}}, which only the client can replace; write ${{NAME}} for a variable")
        if name is None:
            return "$$"
        return f"${{{name}}}" if default is None else f"${{{name}:-{default.replace('$', '$$')}}}"

    written = _DOLLAR.sub(reference, text)
    return f"${written}" if may_be_file and written.startswith(FILE) else written
