"""What hooks contribute beside interceptors and observers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from midspan_sdk._invocation import InvocationContext


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something wrong with a plugin instance as it is configured; returned by `midspan_checks`.

    Attributes:
        message: what is wrong and what to do, in one sentence.
        severity: an `error` stops the start; a `warning` is printed.
        interceptor: the interceptor it is about, or None for the instance.
    """

    message: str
    severity: Literal["error", "warning"] = "error"
    interceptor: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A sub-command of `midspan <plugin id> ...`; returned by `midspan_commands`.

    Attributes:
        name: one word.
        help: one line.
        run: called with the remaining arguments; returns the exit code (0 done, 2 the operator's mistake).
    """

    name: str
    help: str
    run: Callable[[Sequence[str]], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRef:
    """A further interceptor server, named by a resolver.

    Attributes:
        name: how the chain names the server.
        url: where it is, streamable HTTP.
    """

    name: str
    url: str


@runtime_checkable
class ServerResolver(Protocol):
    """Names interceptor servers for a message. Contributed by `midspan_resolvers`."""

    async def resolve(self, context: InvocationContext, event: str) -> Sequence[ServerRef]:
        """Return the servers whose interceptors join the chain for this event."""
        ...
