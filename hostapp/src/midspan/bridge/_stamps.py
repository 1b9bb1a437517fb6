"""Headers that repeat what a message says, for messages that come from a side without headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from midspan.http import (
    METHOD_HEADER,
    NAME_HEADER,
    PARAM_PREFIX,
    TARGETS,
    VERSION_HEADER,
    DisagreementError,
    Headers,
    decode,
    encode,
    rendered,
    same,
    value,
)
from midspan.interception import PROTOCOL_VERSION_KEY
from midspan.relay import JSONFaultError, Message, object_or_empty, read
from midspan_sdk.events import TOOLS_CALL

_ANNOTATION: Final = "x-mcp-header"
_REPEATED_TYPES: Final = ("string", "integer", "boolean")
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

Path = tuple[str, ...]
Fields = list[tuple[bytes, bytes]]


def version_of(message: Message) -> str | None:
    """Return the protocol version that a message itself names, as every request does since 2026-07-28."""
    version: object = object_or_empty(message.params_or_empty().get("_meta")).get(PROTOCOL_VERSION_KEY)
    return version if isinstance(version, str) else None


class Stamps:
    """Makes the headers of 2026-07-28.

    Which arguments of a tool stand in headers, the tool's schema says; so listings that pass are remembered.
    """

    def __init__(self) -> None:
        self._repeated: dict[str, dict[Path, str]] = {}

    def of(self, message: Message) -> Fields:
        """Return the headers that repeat what a message says; none for one that names no version.

        Raises:
            DisagreementError: a header cannot carry a value.
        """
        version = version_of(message)
        if version is None:
            return []
        params = message.params_or_empty()
        fields: Fields = [(VERSION_HEADER, encode(version)), (METHOD_HEADER, encode(message.method))]
        target = params.get(TARGETS.get(message.method, ""))
        if isinstance(target, str):
            fields.append((NAME_HEADER, encode(target)))
            if message.method == TOOLS_CALL:
                fields += self._arguments(target, object_or_empty(params.get("arguments")))
        return fields

    def _arguments(self, tool: str, arguments: Mapping[str, Any]) -> Iterator[tuple[bytes, bytes]]:
        for header, scalar in self._values(tool, arguments):
            if scalar is not None:
                yield header, encode(rendered(scalar))

    def _values(self, tool: str, arguments: Mapping[str, Any]) -> Iterator[tuple[bytes, str | int | float | None]]:
        for path, token in self._repeated.get(tool, {}).items():
            found: Any = arguments
            for key in path:
                found = object_or_empty(found).get(key)
            yield PARAM_PREFIX + token.lower().encode(), found if isinstance(found, str | int | float) else None

    def check(self, headers: Headers, message: Message) -> None:
        """Check that a call's headers say what its arguments say, as far as its tool's schema is known.

        Raises:
            DisagreementError: one is missing, or says something else.
        """
        params = message.params_or_empty()
        if message.method != TOOLS_CALL or not self._repeated:
            return
        for header, scalar in self._values(str(params.get("name")), object_or_empty(params.get("arguments"))):
            said = value(headers, header)
            decoded = None if said is None else decode(said)
            agrees = said is None if scalar is None else decoded is not None and same(scalar, decoded)
            if not agrees:
                raise DisagreementError(f"the header {header.decode()} does not say what the body says")

    def learn(self, answer: bytes) -> None:
        """Remember what the answer to a `tools/list` says."""
        if _ANNOTATION.encode() not in answer:
            return
        try:
            result = object_or_empty(object_or_empty(read(answer).value).get("result"))
        except JSONFaultError:
            return
        tools: object = result.get("tools")
        for tool in cast("list[object]", tools) if isinstance(tools, list) else ():
            described = object_or_empty(tool)
            name: object = described.get("name")
            if isinstance(name, str):
                self._repeated[name] = dict(_annotations((), described.get("inputSchema")))


def _annotations(path: Path, schema: object) -> Iterator[tuple[Path, str]]:
    """Yield what stands in headers: annotated properties that only `properties` lead to."""
    for name, described in object_or_empty(object_or_empty(schema).get("properties")).items():
        inner = object_or_empty(described)
        token: object = inner.get(_ANNOTATION)
        if isinstance(token, str) and token and _TOKEN.issuperset(token) and inner.get("type") in _REPEATED_TYPES:
            yield (*path, name), token
        yield from _annotations((*path, name), inner)
