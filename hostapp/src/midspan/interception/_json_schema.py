"""JSON Schema for values and schemas that nobody vouches for: no reference leaves the document, and time is bounded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from time import perf_counter
from typing import Any, Final, cast

from midspan.interception._patterns import is_affordable
from midspan.relay import write

logger = logging.getLogger("midspan.gateway")

_MOST_BYTES: Final = 256 * 1024
"""A larger schema is not compiled."""
_MOST_SECONDS: Final = 0.25
_MOST_UNIQUE: Final = 500
_LONGEST_KEY: Final = 200
_SHOWN: Final = 80

_deadline: ContextVar[float] = ContextVar("deadline")

Keyword = Callable[[Any, Any, Any, Any], Iterable[Any] | None]


class TooCostlyError(Exception):
    """It would take too long to tell whether the value fits."""


class CompiledSchema:
    """A schema, compiled once.

    Args:
        validator: of the library.
    """

    def __init__(self, validator: Any) -> None:
        self._validator = validator

    def fault_of(self, value: object) -> str | None:
        """Return where in the schema a value fails, or None when it fits. Never says anything of the value.

        Raises:
            TooCostlyError: that takes too long to find out.
        """
        token = _deadline.set(perf_counter() + _MOST_SECONDS)
        try:
            error = next(iter(self._validator.iter_errors(value)), None)
        except (TooCostlyError, RecursionError) as cost:
            raise TooCostlyError from cost
        except Exception as fault:  # noqa: BLE001 - a reference without a target, a pattern that is none: clients fail too
            return type(fault).__name__.lstrip("_")
        finally:
            _deadline.reset(token)
        if error is None:
            return None
        path = "/".join(str(part) for part in error.absolute_schema_path)
        return "".join(letter if letter.isprintable() else "?" for letter in path[:_SHOWN])


def compiled(schema: Mapping[str, Any]) -> CompiledSchema | None:
    """Compile a schema as clients do, references within the document only.

    Returns:
        None when it cannot be: it is no valid schema, which no client could use either; too large; or it changes the
        dialect in the middle.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    nothing_else: Registry[Any] = Registry()

    if len(write(schema)) > _MOST_BYTES or _changes_dialect(schema):
        return None
    try:
        # The default is given, since without one an unknown dialect is warned of.
        dialect = cast("Any", validator_for(schema, default=Draft202012Validator))
        dialect.check_schema(schema)
        return CompiledSchema(_bounded(dialect)(schema, registry=nothing_else))
    except SchemaError:
        return None
    except Exception:  # noqa: BLE001 - whatever a schema by somebody else sets off in the library
        logger.warning("a tool's outputSchema cannot be compiled; results are not checked against it")
        return None


def _changes_dialect(schema: Mapping[str, Any]) -> bool:
    """Tell whether a part names a dialect, for which the library would use a validator without bounds."""
    left: list[Any] = list(schema.values())
    while left:
        one = left.pop()
        if isinstance(one, dict):
            part = cast("dict[str, Any]", one)
            if isinstance(part.get("$schema"), str):
                return True
            left += part.values()
        elif isinstance(one, list):
            left += cast("list[Any]", one)
    return False


@cache
def _bounded(dialect: Any) -> Any:
    from jsonschema import validators

    given = cast("dict[str, Keyword]", dict(dialect.VALIDATORS))
    bounded = {name: _timed(keyword) for name, keyword in given.items()}
    for name, harmless in _HARMLESS.items():
        if name in bounded:
            bounded[name] = _where(harmless, bounded[name])
    return cast("Any", validators).extend(dialect, bounded)


def _timed(keyword: Keyword) -> Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[Any] | None:
        if perf_counter() > _deadline.get():
            raise TooCostlyError
        return keyword(validator, value, instance, schema)

    return check


def _where(harmless: Callable[[Any, Any, Any], bool], keyword: Keyword) -> Keyword:
    """Leave a keyword out where it could take for ever."""

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | Iterable[Any] | None:
        return keyword(validator, value, instance, schema) if harmless(value, instance, schema) else None

    return check


def _pattern(pattern: Any, instance: Any, schema: Any) -> bool:
    return not isinstance(instance, str) or is_affordable(pattern, len(instance))


def _unique(wanted: Any, instance: Any, schema: Any) -> bool:
    # Objects cannot be sorted, so that each would be compared with all others.
    return not isinstance(instance, list) or len(cast("list[Any]", instance)) <= _MOST_UNIQUE


def _keys(value: Any, instance: Any, schema: Any) -> bool:
    patterns = schema.get("patternProperties") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - any JSON
    if not patterns or not isinstance(instance, dict):
        return True
    keys = cast("dict[str, Any]", instance)
    longest = max(map(len, keys), default=0)
    return longest <= _LONGEST_KEY and all(is_affordable(one, longest) for one in cast("dict[str, Any]", patterns))


_HARMLESS: Final[Mapping[str, Callable[[Any, Any, Any], bool]]] = {
    "pattern": _pattern,
    "patternProperties": _keys,
    "additionalProperties": _keys,
    "unevaluatedProperties": _keys,
    "uniqueItems": _unique,
}
