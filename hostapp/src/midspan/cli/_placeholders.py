"""A value of the right form for a key that has no default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_TEXT = "CHANGE-ME"
_OF_FORMAT = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T08:30:00Z",
    "directory-path": "/change/me",
    "duration": "PT30S",
    "email": "change-me@example.com",
    "file-path": "/change/me",
    "path": "/change/me",
    "time": "08:30:00",
    "uri": "https://example.com/",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
_DEEPEST = 8


def placeholder(schema: Schema, definitions: Mapping[str, Schema], depth: int = 0) -> Any:
    """Return a value that a JSON Schema, as pydantic writes it, is likely to accept; it is the operator's to change.

    Args:
        schema: the schema.
        definitions: what its `$ref` refer to, by the last part.
        depth: how many levels down it is; deep inside of what refers to itself, lists and tables are empty.
    """
    if "$ref" in schema:
        return placeholder(definitions.get(schema["$ref"].rpartition("/")[2], {}), definitions, depth + 1)
    if schema.get("examples"):
        return schema["examples"][0]
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if options := [one for one in schema.get(key, ()) if one.get("type") != "null"]:
            return placeholder(options[0], definitions, depth)
    kind = schema.get("type", "string")
    if kind == "boolean":
        return False
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "array":
        return _list(schema, definitions, depth)
    if kind == "object":
        return _table(schema, definitions, depth)
    return _text(schema)


def _number(schema: Schema) -> float:
    step = schema.get("multipleOf", 1)
    for key, by in (("minimum", 0), ("exclusiveMinimum", step), ("maximum", 0), ("exclusiveMaximum", -step)):
        if key in schema:
            return schema[key] + by
    return step


def _list(schema: Schema, definitions: Mapping[str, Schema], depth: int) -> list[Any]:
    if depth > _DEEPEST:
        return []
    if "prefixItems" in schema:
        return [placeholder(each, definitions, depth + 1) for each in schema["prefixItems"]]
    items = schema.get("items", {})
    each = placeholder(items if isinstance(items, Mapping) else {}, definitions, depth + 1)  # pyright: ignore[reportUnknownArgumentType] - JSON
    return [each] * max(1, schema.get("minItems", 1))


def _table(schema: Schema, definitions: Mapping[str, Schema], depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        return {}
    known: Mapping[str, Schema] = schema.get("properties", {})
    return {key: placeholder(known.get(key, {}), definitions, depth + 1) for key in schema.get("required", ())}


def _text(schema: Schema) -> str:
    text = _OF_FORMAT.get(schema.get("format", ""), _TEXT)
    text = text.ljust(schema.get("minLength", 0), "-")
    return text[: schema.get("maxLength", len(text))]
