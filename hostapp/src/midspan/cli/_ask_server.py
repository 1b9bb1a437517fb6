"""`midspan interceptors list` and `invoke`: what a server offers, and what one of its interceptors says."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

import anyio
from mcp import Client

from midspan.cli._interceptor_server import InterceptorServer
from midspan.cli._json_argument import json_object
from midspan.cli._output import echo, print_table
from midspan.cli._show import hooks_text, priority_text
from midspan.config import milliseconds
from midspan.errors import InterceptorServerError, OperatorError, did_you_mean
from midspan.remote import client_factory, shown
from midspan_sdk import ChainEntry, Descriptor, InvocationError, PeerError, UnknownInterceptorError
from midspan_sdk.mcp import invoke_interceptor, list_interceptors
from midspan_sdk.wire import Phase

CONNECT_TIMEOUT: Final = 30.0
"""Seconds for opening the connection; a child process may have to load a lot."""
LIST_TIMEOUT: Final = 30.0
"""Seconds for a listing."""

T = TypeVar("T")


def list_on(server: InterceptorServer, *, event: str | None, as_json: bool) -> None:
    """Print what a server offers.

    Raises:
        OperatorError: it cannot be reached, or its listing cannot be used.
    """

    async def ask(client: Client) -> list[Descriptor]:
        with anyio.fail_after(LIST_TIMEOUT):
            return await list_interceptors(client, event)

    found = _asked(server, ask)
    if as_json:
        echo(json.dumps([one.to_wire() for one in found], indent=2))
    elif found:
        print_table([_row(one) for one in found], header=("NAME", "TYPE", "MODE", "PRIORITY", "HOOKS", "DESCRIPTION"))
    else:
        echo("It offers no interceptor." if event is None else f"It offers none for {event}.", err=True)


def _row(descriptor: Descriptor) -> tuple[str, ...]:
    entry = ChainEntry(descriptor)
    return (
        entry.name,
        descriptor.noun,
        entry.mode if entry.type != "sink" else "-",
        priority_text(entry) if entry.type == "mutation" else "-",
        hooks_text(entry.hooks),
        descriptor.description or "",
    )


def invoke_on(
    server: InterceptorServer, name: str, *, event: str, phase: str, payload: str, config: str | None, timeout: str
) -> None:
    """Print what an interceptor says of a message.

    Raises:
        OperatorError: an argument is none, the server cannot be reached, or the invocation failed.
    """
    if payload == config == "-":
        raise OperatorError("--payload and --interceptor-config cannot both be read from stdin")
    body = json_object("--payload", payload)
    own = None if config is None else json_object("--interceptor-config", config)
    try:
        deadline = milliseconds(timeout)
    except ValueError as error:
        raise OperatorError(f"--timeout {error}") from None

    async def ask(client: Client) -> dict[str, Any]:
        try:
            result = await invoke_interceptor(
                client,
                name,
                event=event,
                phase=cast("Phase", phase),
                payload=body,
                config=own,
                timeout_ms=deadline,
            )
        except UnknownInterceptorError:
            names = [one.name for one in await list_interceptors(client)]
            hint = did_you_mean(name, names) or f"; it offers {', '.join(names) or 'none'}"
            raise OperatorError(f"the server offers no interceptor {name!r}{hint}") from None
        except InvocationError as error:
            raise OperatorError(f"the invocation failed: {error}") from error
        return result.to_wire()

    echo(json.dumps(_asked(server, ask), indent=2, ensure_ascii=False))


def _asked(server: InterceptorServer, ask: Callable[[Client], Awaitable[T]]) -> T:
    target = server.resolved()
    factory = client_factory(target, server.name or shown(target))

    async def run() -> T:
        with anyio.CancelScope(deadline=anyio.current_time() + CONNECT_TIMEOUT) as scope:
            async with factory() as client:
                scope.deadline = math.inf
                return await ask(client)
        raise TimeoutError

    try:
        return anyio.run(run)
    except PeerError as error:
        problem = error.problem
    except TimeoutError:
        problem = f"cannot be reached: no answer within {CONNECT_TIMEOUT:g} s"
    raise InterceptorServerError(
        problem, server=None, shown=f"{server.name!r} ({shown(target)})" if server.name else shown(target)
    )
