"""Host and Origin, against pages that point a name of theirs to this machine."""

from __future__ import annotations

import pytest

from midspan.http import Guard, is_loopback
from midspan.http._headers import end_to_end, media_type

from .wire import Answer, call, relayed


def status(guard: Guard, *hosts: str, origins: tuple[str, ...] = ()) -> int:
    """Return the status with which a request is refused, or 200."""
    fields = [(b"host", host.encode("latin-1")) for host in hosts]
    fields += [(b"origin", origin.encode("latin-1")) for origin in origins]
    refusal = guard.check(fields)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8808", "[::1]", "[::1]:1", "localhost:"])
def test_loopback_names_are_served(host: str) -> None:
    assert status(Guard(), host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example:8808",
        "localhost@evil.example",
        "evil.example#localhost",
        "localhost/evil",
        "10.0.0.1",
        "127.0.0.1.evil.example",
        "",
        ":80",
        "localhost:x",
        "[::1",
        "local host",
        "localhost\t",
        "::1",
        "0.0.0.0",
    ],
)
def test_other_names_are_not(host: str) -> None:
    assert status(Guard(), host) == 421


def test_a_request_with_no_host_or_two_is_refused() -> None:
    assert status(Guard()) == 421
    assert status(Guard(), "localhost", "localhost") == 421


def test_names_can_be_allowed_and_only_those_are_added() -> None:
    guard = Guard(hosts=["Api.Example:443"])
    assert status(guard, "api.example") == status(guard, "api.example:9") == status(guard, "localhost") == 200
    assert status(guard, "x.api.example") == 421


def test_any_address_accepts_addresses_but_no_name() -> None:
    guard = Guard(any_address=True)
    assert status(guard, "10.0.0.1:8808") == status(guard, "[fe80::1]:1") == 200
    assert status(guard, "evil.example") == 421


@pytest.mark.parametrize("origin", ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:3", "HTTP://LOCALHOST"])
def test_pages_of_this_machine_may_send_requests(origin: str) -> None:
    assert status(Guard(), "localhost", origins=(origin,)) == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "", "localhost", "http://localhost.evil.example", "file://localhost", "http://"],
)
def test_other_pages_may_not(origin: str) -> None:
    assert status(Guard(), "localhost", origins=(origin,)) == 403


def test_two_origins_are_refused() -> None:
    assert status(Guard(), "localhost", origins=("http://localhost", "http://localhost")) == 403


def test_origins_can_be_allowed_and_are_compared_as_a_whole() -> None:
    guard = Guard(origins=["https://App.example:8443/"])
    assert status(guard, "localhost", origins=("https://app.example:8443",)) == 200
    assert status(guard, "localhost", origins=("https://app.example",)) == 403
    assert status(guard, "localhost", origins=("http://app.example:8443",)) == 403


def test_the_page_of_an_allowed_host_may_send_requests() -> None:
    assert status(Guard(hosts=["api.example"]), "api.example", origins=("https://api.example",)) == 200


def test_names_that_are_made_up_get_no_memory() -> None:
    guard = Guard()
    for number in range(5000):
        status(guard, f"h{number}")
    assert len(guard._seen) <= 300  # pyright: ignore[reportPrivateUsage] # what is bounded


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("h", False)],
)
def test_loopback_is_known_by_its_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_fields_of_one_connection_and_those_it_names_do_not_go_on() -> None:
    fields = [(b"Connection", b"close, X-Mine"), (b"X-Mine", b"1"), (b"TE", b"x"), (b"Accept", b"  a \t")]
    assert end_to_end(fields) == [(b"accept", b"a")]


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (None, ""),
        (b"Application/JSON; charset=utf-8", "application/json"),
        (b" text/event-stream ", "text/event-stream"),
    ],
)
def test_a_media_type_is_known_without_its_parameters(content_type: bytes | None, expected: str) -> None:
    assert media_type(content_type) == expected


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


@pytest.mark.anyio
async def test_a_request_that_is_refused_never_reaches_the_server() -> None:
    async def handler(answer: Answer) -> None:
        await answer.send(b"{}")

    async with relayed(handler) as link:
        assert (await link.send("POST", call(1), host="evil.example")).status == 421
        assert (await link.send("POST", call(1), [("origin", "http://evil.example")])).status == 403
        assert (await link.send("POST", call(1), path="/other")).status == 404
        assert (await link.send("PUT", call(1))).status == 405
        assert link.seen == []
        assert (await link.send("POST", call(1), [("origin", "http://localhost:1")])).status == 200
