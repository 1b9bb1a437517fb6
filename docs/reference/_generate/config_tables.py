"""The tables of midspan.toml, from the models that read them; and the JSON Schema of the file."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, cast

from docstrings import cell
from pydantic import BaseModel

from midspan.config import config_schema, keys_of, meanings_of, type_text

_DURATION = 'duration: `"250ms"`, `"1.5s"`, `"2m"`'
_SIZE = 'size: `"64MiB"`, `"10MB"`, or a whole number of bytes'
_ACCEPTED = {
    "ask_timeout": _DURATION,
    "chain_timeout": _DURATION,
    "config": "table",
    "env": "table of texts",
    "headers": "table of texts",
    "hooks": "list of tables",
    "interceptors": "table of tables",
    "levels": 'table of "debug", "info", "warning" or "error"',
    "max_message": _SIZE,
    "max_payload": _SIZE,
    "plugins": "table of tables",
    "priority": "whole number, or `{ request = 10, response = -10 }`",
    "timeout": _DURATION,
}
"""Where the model's type does not say what stands in the file, because it is read in two forms or with units."""

_MEANINGS = {"request": "in the request phase.", "response": "in the response phase."}
"""Where the model's docstring speaks of the whole table."""


def config_table(model_name: str) -> str:
    """Return a row for each key of a table."""
    model = cast("type[BaseModel]", getattr(import_module("midspan.config"), model_name))
    meanings = meanings_of(model)
    written: dict[str, Any] = config_schema()["$defs"][model_name]["properties"]
    rows = ["| key | accepts | default | meaning |", "|---|---|---|---|"]
    for key, field in keys_of(model).items():
        accepted = _ACCEPTED.get(key) or type_text(field.annotation)
        default = written[key].get("default")
        shown = "required" if field.is_required() else "" if default is None else f"`{json.dumps(default)}`"
        meaning = _MEANINGS.get(key) or meanings[key]
        rows.append(f"| `{key}` | {cell(accepted)} | {shown} | {cell(meaning)} |")
    return "\n".join(rows)


def json_schema() -> str:
    """Return the JSON Schema of the config file."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
