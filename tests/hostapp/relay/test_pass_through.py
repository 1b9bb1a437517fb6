"""Without interceptors the gateway is a wire: what goes in comes out, byte for byte."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .harness import open_link, program, request, send

pytestmark = pytest.mark.anyio

AWKWARD = [
    b'{"params": {"b": 1, "a": 2},   "method":"ping","jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"2.0","id":1.0,"method":"ping","params":{"x":1.0,"y":1e2,"z":-0.0,"n":null}}',
    b'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"big":1152921504606846977,"bigger":%d}}' % 10**400,
    b'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"lone":"\\ud800","pair":"\\ud83d\\ude00","raw":"\xf0\x9f\x98\x80"}}',
    b'{"jsonrpc":"2.0","id":3,"method":"ping","\x01unknown":[true],"extra":{"k":[]}}\r',
    b'\t {"jsonrpc":"2.0",\r"id":4,"method":"ping"} \r',
    b'{"jsonrpc":"2.0","id":5,"id":5,"method":"ping","params":{"a":NaN,"b":1e999,"b":-Infinity}}',
    b'[{"jsonrpc":"2.0","id":6,"method":"ping"},{"jsonrpc":"2.0","method":"a"}]',
    b'{"jsonrpc":"2.0","id":7,"method":"ping","params":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"jsonrpc":"2.0","id":8,"method":"ping","params":' + b"9" * 5000 + b"}",
    b"not JSON at all, id 9 \xff\xfe\x00",
    b'{"jsonrpc":"2.0","id":null,"method":"ping","method":"pong"}',
]


@pytest.mark.parametrize("line", AWKWARD, ids=range(len(AWKWARD)))
async def test_a_clients_line_reaches_the_server_as_the_bytes_it_was(log: Path, line: bytes) -> None:
    async with open_link(log) as link:
        await link.send(line)
        await link.finish()
    assert link.seen() == [line]


async def test_a_servers_lines_reach_the_client_as_the_bytes_they_were(log: Path) -> None:
    async with open_link(log) as link:
        await link.send(request(1, "go", None, send(*AWKWARD)))
        assert [await link.receive() for _ in AWKWARD] == AWKWARD


async def test_blank_lines_are_left_out(log: Path) -> None:
    async with open_link(log) as link:
        await link.write(b'\n \n\r\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert (await link.read())["id"] == 1
        assert link.seen() == [b'{"jsonrpc":"2.0","id":1,"method":"ping"}']


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.binary(min_size=1, max_size=200).map(lambda b: b"|" + b.replace(b"\n", b" ")), max_size=30))
async def test_whatever_a_line_is_it_crosses_both_ways_unchanged(
    lines: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.mktemp("log") / "server.log"
    async with open_link(log) as link:
        back = b"".join(line + b"\n" for line in lines)
        await link.send(*lines, b'{"do":"%s"}' % program(("send", base64.b64encode(back + b"end\n").decode())).encode())
        received = [await link.receive() for _ in range(len(lines) + 1)]
        assert received == [*lines, b"end"]
        assert link.seen()[:-1] == lines
