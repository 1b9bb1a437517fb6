"""Headers that repeat what a message says, for messages that come from a side without headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from midspan.http import (
    HANDSHAKE_VERSIONS,
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
_SINGLE: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LISTED: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords of JSON Schema 2020-12 with schemas in them, as one, as a list, or by name."""
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
        self._version: str | None = None

    def of(self, message: Message, *, in_session: bool = True) -> Fields:
        """Return the headers that repeat what a message says; none for one of an era without them.

        Args:
            message: the message.
            in_session: whether a handshake has come to a version. Without, a notification that names none is of the
                version of the requests before it.

        Raises:
            DisagreementError: a header cannot carry a value.
        """
        version = version_of(message)
        if version is None and message.kind == "notification" and not in_session:
            version = self._version
        if version is None or version in HANDSHAKE_VERSIONS:
            return []
        self._version = version
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
        if _ANNOTATION.encode() not in answer and not self._repeated:
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
                self._repeated.pop(name, None)
                if repeated := _repeated(described.get("inputSchema")):
                    self._repeated[name] = repeated


def _repeated(schema: object) -> dict[Path, str]:
    """Return which arguments stand in headers, and in which.

    None do of a schema with an annotation that is not valid: servers check none then, since clients that keep to the
    protocol drop the tool.
    """
    found: dict[Path, str] = {}
    for path, inner in _schemas(schema):
        if _ANNOTATION not in inner:
            continue
        token, kind = inner[_ANNOTATION], inner.get("type")
        if not path or not isinstance(token, str) or not token or not _TOKEN.issuperset(token):
            return {}
        if not isinstance(kind, str) or kind not in _REPEATED_TYPES:
            return {}
        if token.lower() in (known.lower() for known in found.values()):
            return {}
        found[path] = token
    return found


def _schemas(root: object) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Yield a schema and those in it, with the properties that alone lead there; None when something else does too."""
    stack: list[tuple[Path | None, object]] = [((), root)]
    while stack:
        path, node = stack.pop()
        schema = object_or_empty(node)
        yield path, schema
        for name, inner in object_or_empty(schema.get("properties")).items():
            stack.append(((*path, name) if path is not None else None, inner))
        stack.extend((None, schema[keyword]) for keyword in _SINGLE & schema.keys())
        for keyword in _NAMED & schema.keys():
            stack.extend((None, inner) for inner in object_or_empty(schema[keyword]).values())
        for keyword in _LISTED & schema.keys():
            listed: object = schema[keyword]
            stack.extend((None, inner) for inner in cast("list[object]", listed if isinstance(listed, list) else []))
