"""Values as TOML has them, on one line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, cast

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: Any) -> str:
    """Write a value that JSON can hold, and that is no null, as TOML. What is null inside of a table is left out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON leaves a DEL as it is, which TOML does not.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        pairs = [f"{toml_key(key)} = {toml_value(each)}" for key, each in table.items() if each is not None]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    return f"[{', '.join(toml_value(each) for each in cast('list[Any]', value) if each is not None)}]"


def toml_key(key: str) -> str:
    """Write a key as TOML has it."""
    return key if _BARE.fullmatch(key) else toml_value(key)
