"""Which arguments of a tool stand in headers, and what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map

from midspan.bridge._stamps import Stamps
from midspan.http import DisagreementError
from midspan.relay import classify
from tests.hostapp.http.wire import STATELESS_META, result

HEADER = "x-mcp-header"


def prop(header: object = "A", kind: object = "string", **more: Any) -> dict[str, Any]:
    return {"type": kind, HEADER: header, **more}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


SCHEMAS = [
    of(a=prop()),
    of(a=prop("A"), b=prop("B-2", "integer"), c=prop("c", "boolean"), d={"type": "string"}),
    of(a={"type": "object", **of(b=prop())}, b=prop("Outer")),
    of(a=prop("A"), b=prop("a")),
    of(a=prop("")),
    of(a=prop("a b")),
    of(a=prop(7)),
    of(a=prop(kind="number")),
    of(a=prop(kind=["string", "null"])),
    of(a=prop(), b={"items": prop("B")}),
    of(a=prop(), b={"anyOf": [{}, prop("B")]}),
    {**of(a=prop()), "$defs": {"x": prop("B")}},
    {**of(a=prop()), "default": prop("B"), "enum": [prop("C")]},
    {**of(a=prop()), HEADER: "Root"},
    {"properties": [prop()], "anyOf": {"not": "a list"}, "$defs": []},
    {},
    None,
    7,
]

ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"a": "x", "b": 7, "c": True, "d": "no"},
    {"a": "für", "b": 2**60 + 1, "c": False},
    {"a": None, "b": 1.0},
    {"a": {"b": "inner"}, "b": "outer"},
    {"a": ["x"], "b": {"no": "scalar"}},
    {"a": " edge", "b": "=?base64?eA==?="},
]


def tools_call(arguments: object, name: str = "t") -> Any:
    params = {"name": name, "arguments": arguments, "_meta": STATELESS_META}
    return classify({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def listing(*schemas: object) -> bytes:
    return result(1, {"tools": [{"name": "t", "inputSchema": schema} for schema in schemas]})


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_the_headers_are_those_that_the_sdks_client_sends(schema: Any) -> None:
    stamps = Stamps()
    stamps.learn(listing(schema))
    for arguments in ARGUMENTS:
        fields = stamps.of(tools_call(arguments))
        ours = {name.decode(): text.decode() for name, text in fields if name.startswith(b"mcp-param-")}
        usable = find_invalid_x_mcp_header(schema) is None
        theirs = mcp_param_headers(x_mcp_header_map(schema), arguments) if usable else {}
        assert ours == {name.lower(): text for name, text in theirs.items()}
        stamps.check(fields, tools_call(arguments))


@pytest.mark.parametrize("said", [None, b"other"])
def test_a_header_that_says_something_else_than_the_argument_is_found(said: bytes | None) -> None:
    stamps = Stamps()
    stamps.learn(listing(of(a=prop())))
    with pytest.raises(DisagreementError):
        stamps.check([(b"mcp-param-a", said)] if said else [], tools_call({"a": "x"}))


def test_the_newest_listing_holds() -> None:
    stamps = Stamps()
    stamps.learn(listing(of(a=prop("Old"))))
    stamps.learn(listing(of(a=prop("New"))))
    assert (b"mcp-param-new", b"x") in stamps.of(tools_call({"a": "x"}))
    stamps.learn(listing(of()))
    assert [name for name, _ in stamps.of(tools_call({"a": "x"})) if name.startswith(b"mcp-param")] == []


@pytest.mark.parametrize(
    "answer",
    [b"x-mcp-header", b'{"x-mcp-header":1}', b'{"result":{"tools":"x-mcp-header"}}', b'{"result":{"tools":[7]}}'],
)
def test_what_is_no_listing_teaches_nothing(answer: bytes) -> None:
    stamps = Stamps()
    stamps.learn(listing(of(a=prop())))
    stamps.learn(answer)
    assert (b"mcp-param-a", b"x") in stamps.of(tools_call({"a": "x"}))
