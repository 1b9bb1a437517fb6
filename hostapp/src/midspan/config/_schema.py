"""The JSON Schema of midspan.toml, for editors: what the file accepts, not what the models hold after reading.

pydantic says what the models take; what it cannot know is put in here: that TOML has no null, that `${NAME}` may stand
in the place of a value that is checked once it is replaced, that a server has a `command` or a `url`, what keys mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel

from midspan._docstrings import Docstring
from midspan.config import _durations, _sizes
from midspan.config._base import Table
from midspan.config._meanings import meanings_of
from midspan.config._model import PluginSettings, Settings
from midspan.config._servers import ConnectionTable
from midspan.config._values import FILE, NAME

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_FILLED_LATER: Final = ("interceptor_servers", "servers")
"""Tables whose values are checked before their variables are replaced."""
_DEFS: Final = "#/$defs/"
_VARIABLE: Final = "Variable"
_ELSEWHERE: Final = "Elsewhere"
_VARIABLE_PATTERN: Final = rf"\$\{{{NAME}(:-[^}}]*)?\}}"
_SCALARS: Final = frozenset({"boolean", "integer", "number", "string"})
_NULL: Final = {"type": "null"}
_OF_COMMANDS: Final = ("args", "cwd", "env", "restart")
_OF_URLS: Final = ("headers", "transport")


def config_schema(plugins: Mapping[str, type[BaseModel]] | None = None) -> Schema:
    """Return the JSON Schema of the config file, draft 2020-12.

    What it refuses, midspan refuses; what only the running program can tell (whether a variable is set, what a plugin's
    own validators think), it accepts.

    Args:
        plugins: config models by the id of the plugin; each plugin's `config` is then described by its model.

    Raises:
        pydantic.errors.PydanticInvalidForJsonSchema: a model of a plugin has a field that JSON Schema cannot describe.
    """
    raw = Settings.model_json_schema(mode="validation")
    models = {model.__name__: model for model in _tables(Table)}
    writer = _Writer(models, raw.pop("$defs"))
    root = writer.root(raw)
    schema: Schema = {"$schema": DIALECT, "title": "midspan.toml", **root, "$defs": writer.definitions()}
    if plugins:
        _add_plugins(schema, plugins)
    return schema


def plugin_schema(plugin: str, model: type[BaseModel]) -> tuple[Schema, dict[str, Schema]]:
    """Return the schema of a plugin's `config` table, and the definitions that it refers to.

    Args:
        plugin: the plugin's id, which the names of the definitions begin with.
        model: its config model.
    """
    raw = model.model_json_schema(mode="validation", ref_template=f"{_DEFS}{plugin}.{{model}}")
    definitions = {f"{plugin}.{name}": _foreign(node) for name, node in raw.pop("$defs", {}).items()}
    schema = _foreign(raw)
    if "$ref" in schema:  # a model that refers to itself
        return schema, definitions
    for key, meaning in meanings_of(model).items():
        if meaning and (known := schema.get("properties", {}).get(key)) is not None:
            known["description"] = meaning
    if "properties" in schema and model.model_config.get("extra") != "allow":
        schema["additionalProperties"] = False
    schema["description"] = Docstring(model).text or f"The config of the plugin {plugin}."
    return schema, definitions


def _tables(kind: type[Table]) -> Iterator[type[Table]]:
    for below in kind.__subclasses__():
        yield below
        yield from _tables(below)


class _Writer:
    """Rewrites pydantic's schema. A definition that differs by whether variables are replaced first is made twice."""

    def __init__(self, models: Mapping[str, type[Table]], given: Mapping[str, Schema]) -> None:
        self._models = models
        self._given = given
        self._made: dict[str, Schema] = {}

    def root(self, raw: Schema) -> Schema:
        properties: Schema = raw["properties"]
        first = {key: value for key, value in properties.items() if key not in _FILLED_LATER}
        node = self._table({**raw, "properties": first}, Settings, filled=True)
        later = {key: properties[key] for key in _FILLED_LATER}
        node["properties"] |= self._table({"properties": later}, Settings, filled=False)["properties"]
        return node

    def definitions(self) -> dict[str, Schema]:
        variable = {
            "type": "string",
            "pattern": _VARIABLE_PATTERN,
            "description": "An environment variable: `${NAME}`, or `${NAME:-default}`.",
        }
        elsewhere = {
            "type": "string",
            "pattern": rf"{_VARIABLE_PATTERN}|^{FILE}",
            "description": "An environment variable, `${NAME}` or `${NAME:-default}`, or `file:` and an absolute path.",
        }
        return {_ELSEWHERE: elsewhere, **dict(sorted(self._made.items())), _VARIABLE: variable}

    def _reference(self, name: str, *, filled: bool) -> Schema:
        made = self._table(self._given[name], self._models[name], filled=filled)
        if not filled and self._made.get(name, made) != made:
            name = f"{name}AsWritten"
        self._made[name] = made
        return {"$ref": f"{_DEFS}{name}"}

    def _table(self, node: Schema, model: type[Table], *, filled: bool) -> Schema:
        meanings = meanings_of(model)
        properties: dict[str, Schema] = {}
        for key, value in node["properties"].items():
            written = self._node(value, filled=filled)
            properties[key] = {"description": meanings[key], **written} if meanings[key] else written
        table: Schema = {
            "description": Docstring(model).text.replace("\n", " "),
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
        if required := node.get("required"):
            table["required"] = required
        if issubclass(model, ConnectionTable):
            table["oneOf"] = [
                {"required": ["command"], "not": _any_of(key for key in _OF_URLS if key in properties)},
                {"required": ["url"], "not": _any_of(key for key in _OF_COMMANDS if key in properties)},
            ]
        return table

    def _node(self, node: Schema, *, filled: bool) -> Schema:
        node = _without_null(node)
        default = node.pop("default", None)
        if "$ref" in node:
            return self._reference(node["$ref"].removeprefix(_DEFS), filled=filled)
        written: Schema = {}
        for key, value in node.items():
            if key == "anyOf":
                written[key] = [self._node(one, filled=filled) for one in value]
            elif key in ("items", "additionalProperties") and isinstance(value, dict):
                written[key] = self._node(cast("Schema", value), filled=filled)
            elif key == "patternProperties":
                written[key] = {name: self._node(one, filled=filled) for name, one in value.items()}
                written["additionalProperties"] = False
            else:
                written[key] = value
        if filled and ("enum" in written or written.get("pattern") in (_durations.PATTERN, _sizes.PATTERN)):
            written = {"anyOf": [written, {"$ref": f"{_DEFS}{_VARIABLE}"}]}
        if filled and len(written.get("anyOf", ())) > 1:
            written["anyOf"] = _flat(written["anyOf"])
        if default is not None:
            written["default"] = _as_written(default, node)
        return written


def _foreign(value: Any) -> Any:
    """Rewrite the schema of a plugin: texts are filled before they are validated, and numbers are read from texts."""
    if isinstance(value, list):
        return [_foreign(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    node = _without_null(cast("Schema", value))
    default = node.pop("default", None)
    written: Schema = {}
    for key, inner in node.items():
        if key in ("properties", "patternProperties", "$defs"):
            written[key] = {name: _foreign(one) for name, one in inner.items()}
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems") or (
            key in ("items", "additionalProperties", "contains") and isinstance(inner, dict)
        ):
            written[key] = _foreign(inner)
        elif key != "discriminator":  # which is OpenAPI's
            written[key] = inner
    if _is_narrow(written):
        kept = {key: written.pop(key) for key in ("description",) if key in written}
        written = {**kept, "anyOf": [written, {"$ref": f"{_DEFS}{_ELSEWHERE}"}]}
    if len(written.get("anyOf", ())) > 1:
        written["anyOf"] = _flat(written["anyOf"])
    if default is not None:
        written["default"] = default
    return written


def _is_narrow(node: Schema) -> bool:
    """Tell whether a schema takes a scalar and not any text."""
    if "enum" in node or "const" in node:
        return True
    kind = node.get("type")
    if kind not in _SCALARS:
        return False
    return kind != "string" or any(key in node for key in ("pattern", "minLength", "maxLength", "format"))


def _add_plugins(schema: Schema, plugins: Mapping[str, type[BaseModel]]) -> None:
    """Describe each plugin's `config`, in the table of its id and in those that `use` it."""
    definitions = schema["$defs"]
    settings = definitions[PluginSettings.__name__]
    named = schema["properties"]["plugins"]
    by_use: list[Schema] = []
    by_name: Schema = {}
    for plugin, model in sorted(plugins.items()):
        own, more = plugin_schema(plugin, model)
        definitions.update({f"plugin.{plugin}": own, **more})
        config = {"properties": {"config": {"$ref": f"{_DEFS}plugin.{plugin}"}}}
        by_use.append({"if": {"properties": {"use": {"const": plugin}}, "required": ["use"]}, "then": config})
        by_name[plugin] = {
            "allOf": [{"$ref": f"{_DEFS}{PluginSettings.__name__}"}],
            "if": {"properties": {"use": {"const": plugin}}},
            "then": config,
        }
    settings["allOf"] = by_use
    named["properties"] = by_name


def _as_written(default: Any, node: Schema) -> Any:
    patterns = {one.get("pattern") for one in (node, *node.get("anyOf", ()))}
    if _durations.PATTERN in patterns:
        return _durations.duration_text(default)
    return _sizes.size_text(default) if _sizes.PATTERN in patterns else default


def _without_null(node: Schema) -> Schema:
    """Return a copy without pydantic's titles and without null, which TOML has not."""
    copy = {key: value for key, value in node.items() if key != "title" or not isinstance(value, str)}
    if "anyOf" in copy:
        kept = [one for one in copy["anyOf"] if one != _NULL]
        if len(kept) == 1:
            del copy["anyOf"]
            copy = {**kept[0], **copy}
            copy.pop("title", None)
        else:
            copy["anyOf"] = kept
    if copy.get("default", 0) is None:
        del copy["default"]
    return copy


def _flat(alternatives: list[Schema]) -> list[Schema]:
    """Lift alternatives of alternatives; each stands once."""
    found: list[Schema] = []
    for one in alternatives:
        inner = one["anyOf"] if set(one) == {"anyOf"} else [one]
        found += [each for each in inner if each not in found]
    # References last: an editor proposes in this order.
    return sorted(found, key=lambda one: one in ({"$ref": f"{_DEFS}{_VARIABLE}"}, {"$ref": f"{_DEFS}{_ELSEWHERE}"}))


def _any_of(keys: Iterator[str]) -> Schema:
    return {"anyOf": [{"required": [key]} for key in keys]}
