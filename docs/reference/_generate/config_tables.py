"""The tables of midspan.toml, from the models that read them."""

from __future__ import annotations

import json
from importlib import import_module
from typing import cast

from docstrings import Docstring, cell
from pydantic import BaseModel

from midspan.config import keys_of, type_text

_ACCEPTED = {
    "config": "table",
    "env": "table of texts",
    "headers": "table of texts",
    "hooks": "list of tables",
    "interceptors": "table of tables",
    "max_message": 'size: `"64MiB"`, `"10MB"`, or a whole number of bytes',
    "plugins": "table of tables",
    "priority": "whole number, or `{ request = 10, response = -10 }`",
    "timeout": 'duration: `"250ms"`, `"1.5s"`, `"2m"`',
}
"""Where the model's type does not say what stands in the file, because it is read in two forms or with units."""

_DEFAULTS = {"max_message": '`"64MiB"`'}
"""Where the model's default is the value after it was read."""

_MEANINGS = {
    "max_message": "the longest message.",
    "timeout": "deadline.",
    "request": "in the request phase.",
    "response": "in the response phase.",
}
"""Where the model's docstring speaks of the value after it was read, or of the whole table."""


def config_table(model_name: str) -> str:
    """Return a row for each key of a table."""
    model = cast("type[BaseModel]", getattr(import_module("midspan.config"), model_name))
    meanings = {key: text for owner in reversed(model.__mro__) for key, text in _attributes(owner).items()}
    rows = ["| key | accepts | default | meaning |", "|---|---|---|---|"]
    for key, field in keys_of(model).items():
        accepted = _ACCEPTED.get(key) or type_text(field.annotation)
        default = field.get_default(call_default_factory=False)
        shown = "required" if field.is_required() else _DEFAULTS.get(key) or _toml(default)
        meaning = _MEANINGS.get(key) or meanings.get(key, "")
        rows.append(f"| `{key}` | {cell(accepted)} | {shown} | {cell(meaning)} |")
    return "\n".join(rows)


def _attributes(owner: type[object]) -> dict[str, str]:
    return Docstring(owner).entries("Attributes") if owner.__module__.startswith("midspan.") else {}


def _toml(value: object) -> str:
    return f"`{json.dumps(value)}`" if isinstance(value, int | float | str) else ""
