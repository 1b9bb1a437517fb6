"""What a mutator cannot change, whatever it returns."""

from __future__ import annotations

from typing import Any, Final, cast

from midspan_sdk._plain import same
from midspan_sdk._protected_names import CURSORS, REQUEST_STATE, TARGETS, is_reserved_meta
from midspan_sdk.wire import Direction, Phase

_ALWAYS: Final = (REQUEST_STATE, *CURSORS)
_INTERIM: Final = "input_required"


class ProtectedPartError(ValueError):
    """A mutator changed a part of the message that no mutator may change. `path` says which."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"changed the protected part {path}")


def keep_protected(
    before: dict[str, Any],
    after: dict[str, Any],
    *,
    event: str,
    phase: Phase,
    direction: Direction,
    error: bool = False,
) -> None:
    """Put back into a mutator's output what it left out of the protected parts.

    Edits `after`. Protected are: reserved `_meta` keys, the progress token, `requestState`, cursors, the result type of
    an interim result, the code of a JSON-RPC error; and where validators have already run (receiving), the operation's
    target, since policy allowed the call for that target. A changed listing leaves with a private cache scope.

    Raises:
        ProtectedPartError: a protected part is there, but different.
    """
    for key in _ALWAYS:
        _keep(before, after, key, "$")
    if phase == "request" and direction == "receiving":
        for key in TARGETS:
            _keep(before, after, key, "$")
    if before.get("resultType") == _INTERIM or after.get("resultType") == _INTERIM:
        _keep(before, after, "resultType", "$")
    if error:
        _keep_error(before, after)
    _keep_meta(before, after)
    if phase == "response" and event.endswith("/list") and ("cacheScope" in before or "cacheScope" in after):
        after["cacheScope"] = "private"


def _keep_error(before: dict[str, Any], after: dict[str, Any]) -> None:
    old: Any = before.get("error")
    new: Any = after.setdefault("error", old)
    if not isinstance(old, dict) or not isinstance(new, dict) or after.keys() != {"error"}:
        raise ProtectedPartError("$.error")
    _keep(cast("dict[str, Any]", old), cast("dict[str, Any]", new), "code", "$.error")


def _keep_meta(before: dict[str, Any], after: dict[str, Any]) -> None:
    given, returned = before.get("_meta"), after.get("_meta")
    old = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    new = cast("dict[str, Any]", returned) if isinstance(returned, dict) else {}
    keys = {key for key in (*old, *new) if is_reserved_meta(key)}
    if not keys:
        return
    if returned is not None and not isinstance(returned, dict):
        raise ProtectedPartError("$._meta")
    for key in sorted(keys):
        _keep(old, new, key, "$._meta")
    if new and returned is None:
        after["_meta"] = new


def _keep(before: dict[str, Any], after: dict[str, Any], key: str, path: str) -> None:
    if key in before:
        if key not in after:
            after[key] = before[key]
        elif not same(before[key], after[key]):
            raise ProtectedPartError(f"{path}.{key}")
    elif key in after:
        raise ProtectedPartError(f"{path}.{key}")
