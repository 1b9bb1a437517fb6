"""`midspan config init`: a first config file, made from the installed plugins."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import importlib_metadata
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from midspan.cli._placeholders import placeholder
from midspan.cli._toml import toml_key, toml_value
from midspan.config import config_place, config_schema, keys_of, meanings_of, type_text
from midspan.errors import OperatorError, PluginError
from midspan.plugins import PluginInfo, discover, load, owner_of

_WIDTH: Final = 100
_SERVERS: Final = {
    "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"]},
    "search": {"url": "https://example.com/mcp"},
}
"""One server of each kind."""
_OF_KIND: Final = {
    "files": ("command", "args", "env", "cwd", "restart"),
    "search": ("url", "transport", "headers"),
}
_EVERY_PLUGIN: Final = (
    'Plugins. Each table may also hold mode = "audit" (record what it would do, and block nothing), '
    'servers = ["prod-*"] (guard these only), fail_open, priority and timeout, as far as what it brings takes them.'
)
_EXAMPLES: Final[Mapping[str, Any]] = {
    "ask_timeout": "5m",
    "cwd": "/data",
    "env": {"TOKEN": "${FILES_TOKEN}"},
    "headers": {"Authorization": "Bearer ${SEARCH_TOKEN}"},
    "levels": {"policy": "debug"},
    "max_message": "64MiB",
}
"""Values for keys that have no default of their own."""


def plugin_models() -> tuple[dict[str, type[BaseModel]], list[str]]:
    """Import the installed plugins.

    Returns:
        The config model of each that has one, by id; and a line for each that cannot be used.
    """
    models: dict[str, type[BaseModel]] = {}
    warnings: list[str] = []
    for plugin in dict.fromkeys(info.id for info in discover()):
        try:
            model = _model(plugin)
        except PluginError as error:
            warnings.append(f"{error.message}; left out")
        else:
            if model is not None:
                models[plugin] = model
    return models, warnings


def _model(plugin: str) -> type[BaseModel] | None:
    info = owner_of(discover(), {}, plugin)
    model = load(info).config_model()
    if model is not None:
        try:
            model.model_json_schema()
        except Exception as error:  # a model may hold types of any library
            raise info.error(f"its config cannot be described: {error}") from error
    return model


def starter(place: Path | None) -> tuple[str, list[str]]:
    """Write a config file in which nothing is enabled.

    Args:
        place: where it will be; None when that is not known.

    Returns:
        The text, and a line for each plugin that cannot be used.
    """
    models, warnings = plugin_models()
    lines = [*_header(place), *_host_tables(), "", *_prose(_EVERY_PLUGIN)]
    infos = {info.id: info for info in reversed(discover())}
    for plugin in sorted(infos):
        lines += ["", *_plugin(infos[plugin], models.get(plugin))]
    return "\n".join(lines) + "\n", warnings


def place_for(output: Path | None) -> Path:
    """Return where to write: the file that was named, or where the config is looked for.

    Raises:
        OperatorError: there is no such place.
    """
    place = output or config_place()
    if place is None:
        raise OperatorError("you have no config folder, since you have no home; name a file with --output")
    return place


def write_starter(text: str, place: Path, *, force: bool) -> Path | None:
    """Write the file, for the eyes of its owner only.

    Args:
        text: the text.
        place: where; the folder that midspan looks in is made, others are not.
        force: replace a file that is there.

    Returns:
        What a file that was there is called now, or None.

    Raises:
        OperatorError: there is one and it is not to be replaced, or the file cannot be written.
    """
    # Who keeps such files elsewhere has a link here, which stays one.
    target = place.resolve()
    backup: Path | None = None
    try:
        if place == config_place():
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if target.exists():
            if not force:
                raise OperatorError(f"{place}: is there already; --force replaces it, and keeps it as {place.name}.bak")
            backup = place.with_name(f"{place.name}.bak")
            _write(backup, target.read_bytes())
        _write(target, text.encode())
    except OSError as error:
        raise OperatorError(f"{place}: cannot be written: {error.strerror or error}") from error
    return backup


def _write(path: Path, content: bytes) -> None:
    """Write a file at once: whoever reads it meanwhile sees the old one or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _header(place: Path | None) -> Iterator[str]:
    yield from _prose(
        f"The config of midspan, begun by `midspan config init` (midspan {importlib_metadata.version('midspan')})."
    )
    if place is not None:
        looked_for = place == config_place()
        yield from _prose(
            f"Written to {place}"
            + (", where midspan looks for it." if looked_for else "; name it with --config, or MIDSPAN_CONFIG.")
        )
    yield from _prose(
        "`midspan check` tells whether all is well, `midspan config path` which file is read. For editors, "
        "`midspan config schema --plugins --output FILE` writes what may stand here; "
        "`#:schema FILE` as the first line names it."
    )
    yield "#"
    yield from _prose(
        "A line `#key = value` is a key that is commented out, with its default or an example: take the `#` away to "
        "set it. Texts may hold ${NAME} or ${NAME:-default}, from the environment."
    )


def _host_tables() -> Iterator[str]:
    definitions = config_schema()["$defs"]
    servers = definitions["ServerTable"]
    yield ""
    yield from _prose("Servers to guard: started by a command, or reached at a URL. `midspan run --server files`.")
    for name, values in _SERVERS.items():
        yield ""
        yield f"#[servers.{name}]"
        for key in _OF_KIND[name]:
            yield from _host_key(key, servers["properties"][key], values.get(key))
    for table, model in (("gateway", "GatewayTable"), ("limits", "LimitsTable"), ("log", "LogTable")):
        yield from _host_table(table, definitions[model])
    yield from _host_table("audit", definitions["AuditTable"])


def _host_table(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield from _prose(schema["description"])
    yield f"[{name}]"
    for key, known in schema["properties"].items():
        yield from _host_key(key, known)


def _host_key(key: str, schema: Mapping[str, Any], value: Any = None) -> Iterator[str]:
    default = schema.get("default")
    if value is None:
        value = _EXAMPLES.get(key) if default is None else default
    options = [each for one in (schema, *schema.get("anyOf", ())) for each in one.get("enum", ())]
    form = f" Accepts {' or '.join(toml_value(option) for option in options)}." if options else ""
    yield from _key(key, value, f"{schema['description']}{form}")


def _plugin(info: PluginInfo, model: type[BaseModel] | None) -> Iterator[str]:
    summary = _summary(info)
    yield from _prose(f"{info.id} ({info.origin}){': ' if summary else ''}{summary}")
    yield f"[plugins.{info.id}]"
    yield "enabled = false"
    if model is not None:
        yield f"[plugins.{info.id}.config]"
        yield from _plugin_keys(model)


def _plugin_keys(model: type[BaseModel]) -> Iterator[str]:
    schema = model.model_json_schema()
    meanings = meanings_of(model)
    for key, field in keys_of(model).items():
        known: Mapping[str, Any] = schema.get("properties", {}).get(key, {})
        default = None if field.is_required() else _default(field.get_default, known)
        value = placeholder(known, schema.get("$defs", {})) if default is None else default
        needed = "required" if field.is_required() else "optional" if default is None else "default"
        meaning = f"{meanings[key]} " if meanings[key] else ""
        yield from _key(key, value, f"{meaning}({type_text(field.annotation)}, {needed})")


def _default(get_default: Any, schema: Mapping[str, Any]) -> Any:
    if schema.get("writeOnly"):  # a secret
        return None
    try:
        return to_jsonable_python(get_default(call_default_factory=True))
    except Exception:  # noqa: BLE001 - a factory that needs the other keys, or a value that JSON cannot hold
        return None


def _key(key: str, value: Any, meaning: str) -> Iterator[str]:
    yield from _prose(meaning[:1].upper() + meaning[1:])
    yield f"#{toml_key(key)} = {toml_value(value)}"


def _prose(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


def _summary(info: PluginInfo) -> str:
    if info.distribution is None:
        return ""
    try:
        return importlib_metadata.metadata(info.distribution)["Summary"] or ""
    except Exception:  # noqa: BLE001 - damaged metadata; the plugin is not what this is about
        return ""
