"""A tool's result that a mutator changed must still fit what the client was told of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from midspan.interception._json_schema import CompiledSchema, TooCostlyError, compiled
from midspan.relay import write
from midspan_sdk import AbortedAt

logger = logging.getLogger("midspan.gateway")

OUTPUT_RULE: Final = "midspan/output-schema"
"""The rule that holds back a result which does not fit its tool's `outputSchema` any more."""
_CONTENT: Final = "structuredContent"


class OutputCheck:
    """Compares results with the `outputSchema` of a tool, as clients do.

    Args:
        schema: as the client saw it.
        altered: whether a mutator made it what it is, so that the server may not know it.
    """

    def __init__(self, schema: Mapping[str, Any], *, altered: bool) -> None:
        self._schema = schema
        self._altered = altered

    @cached_property
    def _compiled(self) -> CompiledSchema | None:
        return compiled(self._schema)

    def changed(self, arrived: dict[str, Any], leaves: dict[str, Any]) -> AbortedAt | None:
        """Return why a result cannot go on, or None.

        A result that did not fit when it came goes on: that the client will not take it is not the gateway's doing.
        """
        if leaves is arrived or _is_same(arrived, leaves):
            return None
        fault = self._fault_of(leaves)
        if fault is None or not (self._altered or self._fault_of(arrived) is None):
            return None
        return _held_back("the changed result", fault)

    def answered(self, arrived: dict[str, Any], leaves: dict[str, Any]) -> AbortedAt | None:
        """Return why a result that an interceptor gave in the place of the server's cannot go on, or None."""
        fault = self._fault_of(leaves)
        return None if fault is None else _held_back("the answer of an interceptor", fault)

    def _fault_of(self, result: Mapping[str, Any]) -> str | None:
        if not _is_checked(result) or (schema := self._compiled) is None:
            return None
        if _CONTENT not in result:
            return "it has no structuredContent"
        try:
            where = schema.fault_of(result[_CONTENT])
        except TooCostlyError:
            logger.warning("a changed result was not compared with its tool's outputSchema: that takes too long")
            return None
        return None if where is None else f"at {where}" if where else "as a whole"


def _is_checked(result: Mapping[str, Any]) -> bool:
    """Tell whether clients look at the structured content at all: not in errors, nor in what is no final result."""
    return result.get("isError") is not True and result.get("resultType", "complete") == "complete"


def _is_same(arrived: Mapping[str, Any], leaves: Mapping[str, Any]) -> bool:
    if not _is_checked(arrived) or _CONTENT not in arrived or _CONTENT not in leaves:
        return False
    return write(arrived[_CONTENT]) == write(leaves[_CONTENT])


def _held_back(what: str, fault: str) -> AbortedAt:
    return AbortedAt(
        interceptor=OUTPUT_RULE, reason=f"{what} does not fit the tool's outputSchema: {fault}", type="mount"
    )
