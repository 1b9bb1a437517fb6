"""The HTTP client that talks to the server."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Any, cast

import aiohttp
import anyio
import pytest

from midspan.http import Upstream
from midspan.http._errors import RefusedError, UpstreamError
from midspan.http._upstream import _what_happened  # pyright: ignore[reportPrivateUsage] # its words are what is tested
from tests.patience import PATIENCE

from .wire import Answer, raw_server

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def answer_once(listener: socket.socket) -> None:
    """Answer one request on a connection of its own, and close it."""
    connection, _ = listener.accept()
    with connection:
        while b"\r\n\r\n{}" not in connection.recv(65536):
            pass
        connection.sendall(ANSWER)


@pytest.mark.anyio
async def test_a_connection_that_the_server_closed_unnoticed_is_not_used_again() -> None:
    with anyio.fail_after(PATIENCE), socket.create_server(("127.0.0.1", 0)) as listener:
        async with Upstream(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp") as upstream:
            for _ in range(3):
                server = threading.Thread(target=answer_once, args=(listener,), daemon=True)
                server.start()
                async with upstream.request("POST", [], b"{}") as response:
                    assert [chunk async for chunk in response.chunks] == [b"{}"]
                # Blocks the loop on purpose: the connection's end is there, and nothing has told the client of it.
                server.join()


@pytest.mark.anyio
async def test_a_header_that_is_no_utf8_is_refused() -> None:
    async def handler(answer: Answer) -> None:
        await answer.send(b"{}")

    with anyio.fail_after(PATIENCE):
        async with raw_server(handler) as (url, seen), Upstream(url) as upstream:
            with pytest.raises(RefusedError):
                async with upstream.request("POST", [(b"x", b"\xff")], b"{}"):
                    pass
            async with upstream.request("POST", [(b"x", "\u00fc".encode())], b"{}") as response:
                assert response.status == 200
            assert seen[0].header("x") == "\u00fc".encode().decode("latin-1")


@pytest.mark.anyio
async def test_what_went_wrong_is_said_without_secrets() -> None:
    with anyio.fail_after(PATIENCE):
        async with Upstream("http://127.0.0.1:9/mcp?key=secret") as upstream:
            with pytest.raises(UpstreamError, match=r"^the server at 127\.0\.0\.1:9 cannot be reached") as error:
                async with upstream.request("POST", [], b"{}"):
                    pass
            assert "secret" not in str(error.value)


def test_a_certificate_that_is_not_accepted_is_said() -> None:
    error = aiohttp.ClientConnectorCertificateError(cast("Any", None), ssl.CertificateError())
    assert _what_happened(error) == "cannot be reached: its certificate is not accepted"


@pytest.mark.anyio
async def test_outside_of_its_block_it_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        async with Upstream("http://127.0.0.1:9/mcp").request("POST", [], b"{}"):
            pass
