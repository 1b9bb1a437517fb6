"""Untouched means identical, for any JSON."""

from __future__ import annotations

import json
import queue
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midspan_sdk import Chain, validator
from tests.patience import PATIENCE

from .wire import HANDSHAKE, Answer, Connection, Message, gateway_to, raw_server

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
"""Any JSON, lone surrogates, NaN and infinities included."""
SPACES = st.sampled_from([None, 1, "\t"])


@validator(events=["tools/call"], phase="both")
def elsewhere(payload: dict[str, Any]) -> str:
    return "never asked"


class Running:
    """A gateway in a thread of its own; `answers` is what the server says next."""

    def __init__(self, portal: BlockingPortal, connection: Connection, seen: list[Message]) -> None:
        self._portal = portal
        self._connection = connection
        self.seen = seen

    def post(self, body: bytes) -> Message:
        """Post a message."""
        return self._portal.call(self._post, body)

    async def _post(self, body: bytes) -> Message:
        with anyio.fail_after(PATIENCE):
            return await self._connection.post(body, HANDSHAKE)


ANSWERS: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()


async def handler(answer: Answer) -> None:
    form, body = ANSWERS.get_nowait()
    await (answer.send(body) if form == "json" else answer.stream(body))


@asynccontextmanager
async def opened(guarded: bool) -> AsyncGenerator[tuple[Connection, list[Message]]]:
    chain = Chain()
    if guarded:
        chain.add(elsewhere)
    async with raw_server(handler) as (url, seen), chain, gateway_to(url, chain, seen) as link:
        yield await link.connect(), seen


@pytest.fixture(scope="module", params=[False, True], ids=["relay", "interceptors that do not match"])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened(request.param)) as (connection, seen),
    ):
        yield Running(portal, connection, seen)


def text_of(value: Any, indent: Any, ascii_only: bool) -> bytes:
    """Write a value in one of the ways in which peers do."""
    return json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


def is_utf8(text: bytes) -> bool:
    """Tell whether a text is UTF-8; anything else no peer can read."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(params=VALUES, value=VALUES, indent=SPACES, ascii_only=st.booleans(), form=st.sampled_from(["json", "stream"]))
def test_any_json_that_no_interceptor_could_match_passes_byte_for_byte(
    running: Running, params: Any, value: Any, indent: Any, ascii_only: bool, form: str
) -> None:
    body = text_of({"jsonrpc": "2.0", "id": 1, "method": "acme/any", "params": params}, indent, ascii_only)
    reply = text_of({"jsonrpc": "2.0", "id": 1, "result": value}, indent, ascii_only)
    if not (is_utf8(body) and is_utf8(reply)):
        ascii_only = True
        body = text_of({"jsonrpc": "2.0", "id": 1, "method": "acme/any", "params": params}, indent, True)
        reply = text_of({"jsonrpc": "2.0", "id": 1, "result": value}, indent, True)
    if form == "stream":
        reply = b"id: 1\n" + b"".join(b"data: " + line + b"\n" for line in reply.split(b"\n")) + b"\n"
    ANSWERS.put((form, reply))
    response = running.post(body)
    assert running.seen[-1].body == body
    assert response.body == reply
