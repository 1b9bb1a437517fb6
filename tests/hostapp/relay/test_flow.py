"""Size and flow: any chunking, large and too large messages, and nobody fills memory by not reading."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import anyio
import pytest

from midspan.relay import INTERNAL_ERROR, INVALID_REQUEST

from .harness import b64, open_link, program, request, unanswered

pytestmark = pytest.mark.anyio
MEBI = 1024 * 1024


async def test_one_byte_chunks_arrive_as_one_message(log: Path) -> None:
    line = request(1, "ping", {"text": "ünïcödé"})
    async with open_link(log) as link:
        for byte in line + b"\n":
            await link.write(bytes([byte]))
        assert (await link.read())["id"] == 1
        assert link.seen() == [line]


async def test_five_megabytes_cross_both_ways(log: Path) -> None:
    back = ("long", b64('{"id":1,"result":"'), 5 * MEBI, b64('"}\n'))
    line = request(1, "big", {"text": "x" * 5 * MEBI, "do": program(back)})
    async with open_link(log) as link:
        await link.send(line)
        assert await link.receive() == b'{"id":1,"result":"' + b"x" * 5 * MEBI + b'"}'
        assert link.seen() == [line]


async def test_a_last_line_needs_no_newline(log: Path) -> None:
    line = request(1, "ping")
    async with open_link(log) as link:
        await link.write(line)
        assert await link.finish() == 0
        assert await link.rest() == [b'{"jsonrpc":"2.0","id":1,"result":{}}']
    assert link.seen() == [line]


async def test_a_servers_last_line_needs_no_newline(log: Path) -> None:
    async with open_link(log) as link:
        await link.send(request(1, "go", None, ("send", b64("the last")), ("exit", 0)))
        assert await link.rest() == [b"the last", unanswered(1)]


@pytest.mark.parametrize("first", [True, False], ids=["id first", "id last"])
async def test_an_oversized_request_is_answered_and_the_next_works(log: Path, first: bool) -> None:
    call = {"method": "tools/call", "params": {"text": "x" * 200_000}}
    line = json.dumps({"id": 7, **call} if first else {**call, "id": 7}).encode()
    async with open_link(log, max_message=100_000) as link:
        await link.send(line)
        answer = await link.read()
        assert (answer["id"], answer["error"]["code"]) == (7, INVALID_REQUEST)
        await link.works()
        assert len(link.seen()) == 1


@pytest.mark.parametrize("first", [True, False], ids=["id first", "id last"])
async def test_an_oversized_answer_becomes_an_error_for_whoever_asked(log: Path, first: bool) -> None:
    start, end = ('{"id":7,"result":"', '"}\n') if first else ('{"result":"', '","id":7}\n')
    async with open_link(log, max_message=100_000) as link:
        answer = await link.call(7, "go", None, ("long", b64(start), 200_000, b64(end)))
        assert (answer["id"], answer["error"]["code"]) == (7, INTERNAL_ERROR)
        await link.works()


async def test_an_oversized_message_of_no_certain_kind_is_dropped(log: Path) -> None:
    async with open_link(log, max_message=1000) as link:
        await link.send(
            b"x" * 5000, b'{"id":1,"x":"' + b"y" * 5000 + b'"}', b'{"method":"n","x":"' + b"y" * 5000 + b'"}'
        )
        await link.works()
        assert len(link.seen()) == 1


async def test_a_client_that_does_not_read_holds_the_server_back(log: Path, tmp_path: Path) -> None:
    line = b"z" * 65_535 + b"\n"
    done = tmp_path / "done"
    async with open_link(log, reading=False) as link:
        tracemalloc.start()
        try:
            await link.send(request(1, "go", None, ("flood", b64(line), 1000), ("tell", str(done))))
            # Take a little of 64 MB, slowly enough that all the rest could come if anything let it.
            os.set_blocking(link.descriptor, False)
            taken = 0
            while taken < MEBI:
                await anyio.wait_readable(link.descriptor)
                taken += len(os.read(link.descriptor, 4096))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8 * MEBI
        assert not done.exists()
        # And when it reads, everything comes.
        while taken < 1000 * len(line):
            await anyio.wait_readable(link.descriptor)
            taken += len(os.read(link.descriptor, MEBI))
        assert taken == 1000 * len(line)


async def test_a_server_that_does_not_read_holds_the_client_back(log: Path) -> None:
    async with open_link(log) as link:
        await link.send(request(1, "go", None, ("hang",)))
        line = request(2, "n", {"text": "x" * 60_000})
        sent = 0
        with anyio.move_on_after(0.5):
            while True:
                await link.send(line)
                sent += len(line)
        assert sent < 8 * MEBI
