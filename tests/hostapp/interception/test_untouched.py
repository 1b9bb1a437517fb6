"""A message that no interceptor could match leaves as the bytes that came; a judged one as what was judged."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midspan_sdk import mutator, validator
from tests.hostapp.relay.harness import Link, guarded, program, request, send

pytestmark = pytest.mark.anyio
PER_EXAMPLE = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@validator(events=["somewhere/else", "another/*"], phase="both", errors=True)
def elsewhere(payload: dict[str, Any]) -> str:
    return "this must never be asked"


@validator(events=["*"], phase="both", errors=True)
def everywhere(payload: dict[str, Any]) -> None:
    return None


AWKWARD = [
    b'{"params": {"b": 1, "a": 2},   "method":"ping","jsonrpc":"2.0","id":11}',
    b'{"jsonrpc":"2.0","id":1.0,"method":"ping","params":{"x":1.0,"y":1e2,"z":-0.0,"n":null}}',
    b'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"big":1152921504606846977,"bigger":%d}}' % 10**400,
    b'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"lone":"\\ud800","pair":"\\ud83d\\ude00","raw":"\xf0\x9f\x98\x80"}}',
    b'{"jsonrpc":"2.0","id":3,"method":"ping","unknown":[true],"extra":{"k":[]}}\r',
    b'\t {"jsonrpc":"2.0",  "id":4,"method":"ping"} \r',
    b'{"jsonrpc":"2.0","id":5,"method":"ping","params":[1,{"a":1}]}',
    b'{"id":6,"method":"ping","params":{"a":NaN,"b":1e999,"c":1,"c":2}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"never seen","x":1.0}}',
    b'{"jsonrpc": "2.0","method":"notifications/anything","params":null}',
]


@pytest.mark.parametrize("line", AWKWARD, ids=range(len(AWKWARD)))
async def test_what_nothing_matches_reaches_the_server_as_the_bytes_it_was(log: Path, line: bytes) -> None:
    async with guarded(log, elsewhere) as link:
        await link.send(line)
        await link.finish()
    assert link.seen() == [line]


async def test_what_nothing_matches_reaches_the_client_as_the_bytes_it_was(log: Path) -> None:
    lines = [
        *AWKWARD,
        b'{"result" : {"x":1.0,"big":1152921504606846977,"lone":"\\ud800"},"id":1,  "later":null}\r',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"none of yours"}}',
    ]
    async with guarded(log, elsewhere) as link:
        await link.send(request(1, "go", None, send(*lines)))
        assert [await link.receive() for _ in lines] == lines


async def test_a_jsonrpc_error_passes_with_all_its_parts(log: Path) -> None:
    line = b'{"error":{"message":"no such thing","code":-32099,"data":{"a":[1.0]},"more":1},"jsonrpc":"2.0","id":1}'
    async with guarded(log, elsewhere) as link:
        await link.send(request(1, "go", None, send(line)))
        assert await link.receive() == line


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)
IDS = st.integers(min_value=0) | st.text(min_size=1).filter(lambda text: not text.startswith("i"))
RESERVED = {"jsonrpc", "id", "method", "params", "result", "error", "do"}


def spelt(key: str) -> bool:
    return key.casefold() not in RESERVED and key.casefold() not in {"name", "uri", "arguments", "argument", "ref"}


EXTRAS = st.dictionaries(st.text().filter(spelt), VALUES, max_size=3)


@st.composite
def texts(draw: st.DrawFn, message: Mapping[str, Any]) -> bytes:
    """Spell a message in one of the many ways that JSON has."""
    keys = draw(st.permutations(list(message)))
    ascii_only = draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]))
    text = json.dumps({key: message[key] for key in keys}, ensure_ascii=ascii_only, separators=separators)
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8
        return json.dumps(message, separators=separators).encode()


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Make a request and its answer, in awkward spelling."""
    message_id = draw(IDS)
    asked = draw(texts({"jsonrpc": "2.0", "id": message_id, "method": "ask", "params": draw(OBJECTS), **draw(EXTRAS)}))
    key = draw(st.sampled_from(["result", "error"]))
    answer = draw(texts({"jsonrpc": "2.0", "id": message_id, key: draw(OBJECTS), **draw(EXTRAS)}))
    back = base64.b64encode(answer + b"\n").decode()
    # The program is the last key, after whatever the message holds.
    head, _, _ = asked.rpartition(b"}")
    return head + b',"do":"' + program(("send", back)).encode() + b'"}', answer


async def exchange(link: Link, asked: bytes) -> tuple[bytes, bytes]:
    await link.send(asked)
    answer = await link.receive()
    return link.seen()[-1], answer


@PER_EXAMPLE
@given(pairs=st.lists(exchanges(), min_size=1, max_size=6))
async def test_any_exchange_that_nothing_matches_is_the_same_bytes(
    pairs: list[tuple[bytes, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with guarded(tmp_path_factory.mktemp("log") / "server.log", elsewhere) as link:
        for asked, answer in pairs:
            assert await exchange(link, asked) == (asked, answer)


async def test_what_leaves_is_written_anew_from_what_was_judged(log: Path) -> None:
    asked = (
        b'{"future":{"a":1.0},  "id":1,"method":"ask","jsonrpc":"2.0",'
        b'"params":{"b":1.0,"a":[1e2,null,1152921504606846977]}}'
    )
    async with guarded(log, everywhere) as link:
        await link.send(asked)
        assert await link.read() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    (line,) = link.seen()
    assert line == (
        b'{"future":{"a":1.0},"id":1,"method":"ask","jsonrpc":"2.0",'
        b'"params":{"b":1.0,"a":[100.0,null,1152921504606846977]}}'
    )


async def test_a_change_leaves_the_envelope_and_all_else_alone(log: Path) -> None:
    @mutator(events=["ask"], phase="both")
    def stamp(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "stamp": 1.0}

    answer = b'{"later":null,"result":{"x":1.0},"id":1,"jsonrpc":"2.0"}'
    async with guarded(log, stamp) as link:
        await link.send(
            b'{"future":[1.0],"id":1,"method":"ask","params":{"big":1152921504606846977,"do":"%s"}}'
            % program(send(answer)).encode()
        )
        assert await link.receive() == b'{"later":null,"result":{"x":1.0,"stamp":1.0},"id":1,"jsonrpc":"2.0"}'
    (message,) = link.seen_messages()
    assert message["future"] == [1.0]
    assert message["params"]["big"] == 2**60 + 1
    assert message["params"]["stamp"] == 1.0


async def test_a_request_without_params_gets_none_by_being_judged(log: Path) -> None:
    async with guarded(log, everywhere) as link:
        await link.send(b'{"jsonrpc":"2.0","id":1,"method":"ask"}')
        await link.read()
    assert link.seen() == [b'{"jsonrpc":"2.0","id":1,"method":"ask"}']


async def test_the_handshake_is_no_business_of_a_wildcard(log: Path) -> None:
    hello = b'{"jsonrpc":"2.0", "id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
    answer = b'{"jsonrpc":"2.0", "id":0,"result":{"protocolVersion":"2025-11-25","instructions":"none"}}'
    ready = b'{"jsonrpc":"2.0",  "method":"notifications/initialized"}'

    @validator(events=["*"], phase="both")
    def nothing(payload: dict[str, Any]) -> bool:
        return False

    async with guarded(log, nothing, at_start=[("read", 1), send(answer)]) as link:
        await link.send(hello)
        assert await link.receive() == answer
        await link.send(ready)
        await link.finish()
    assert link.seen() == [hello, ready]
