"""The errors of midspan's SDK.

MidspanError
├── DefinitionError              an interceptor, hook or override is written wrongly
│   ├── DuplicateInterceptorError
│   └── UnmetNeedError           the mount cannot give what the interceptor needs
├── InvocationError              one invocation failed; carries the JSON-RPC error a peer gets
│   ├── UnknownInterceptorError
│   ├── InvalidInvocationError   bad config or payload
│   ├── InterceptorTimeoutError
│   └── InterceptorFailedError   crash, wrong result type, compatibility
│       ├── AskError             the user cannot be asked, or does not answer
│       └── LostServerError      the connection to the interceptor's server is gone
├── ChainError                   a chain was asked for something it cannot do
│   └── UnknownNameError         an override or an alias for an interceptor that is not there
├── NotPlainError                a payload, a state or a stored value is not JSON; a ValueError too
└── PeerError                    an interceptor server sent something unusable
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from midspan_sdk import wire

__all__ = [
    "AskError",
    "ChainError",
    "DefinitionError",
    "DuplicateInterceptorError",
    "InterceptorFailedError",
    "InterceptorTimeoutError",
    "InvalidInvocationError",
    "InvocationError",
    "LostServerError",
    "MidspanError",
    "NotPlainError",
    "PeerError",
    "UnknownInterceptorError",
    "UnknownNameError",
    "UnmetNeedError",
]


class MidspanError(Exception):
    """Base of all errors raised by midspan."""


class DefinitionError(MidspanError):
    """Something an author wrote cannot be registered.

    Attributes:
        interceptor: the name of the interceptor, or of what was being defined.
        field: the field, parameter or argument that is wrong, or None when the whole is.
    """

    def __init__(self, interceptor: str, problem: str, *, field: str | None = None) -> None:
        self.interceptor = interceptor
        self.field = field
        self.problem = problem
        where = f"{interceptor!r}: {field}: " if field else f"{interceptor!r}: "
        super().__init__(f"interceptor {where}{problem}")


class DuplicateInterceptorError(DefinitionError):
    """Two interceptors of one chain or server have the same name."""


class UnmetNeedError(DefinitionError):
    """The mount cannot give what an interceptor needs (`session`, `tools`, `ask`, `store`)."""


class InvocationError(MidspanError):
    """One invocation failed.

    Attributes:
        code: the JSON-RPC error code a peer is answered with.
        message: the JSON-RPC error message.
        data: the JSON-RPC error data; never a traceback, a payload value or a path.
        interceptor: the name of the interceptor.
    """

    code: int = wire.EXECUTION_FAILED
    message: str = wire.EXECUTION_FAILED_MESSAGE

    def __init__(self, interceptor: str, *, data: dict[str, Any] | None = None, detail: str | None = None) -> None:
        self.interceptor = interceptor
        self.data: dict[str, Any] = {"interceptor": interceptor, **(data or {})}
        super().__init__(detail or self.message)


class UnknownInterceptorError(InvocationError):
    """No interceptor of that name is registered."""

    code = wire.INVALID_PARAMS
    message = "Unknown interceptor"


class InvalidInvocationError(InvocationError):
    """The config or the payload of an invocation is not acceptable."""

    code = wire.INVALID_PARAMS
    message = "Invalid interceptor invocation"

    def __init__(self, interceptor: str, reason: str) -> None:
        self.reason = reason
        super().__init__(interceptor, data={"reason": reason}, detail=f"{interceptor}: {reason}")


class InterceptorTimeoutError(InvocationError):
    """The interceptor did not finish before its deadline; it was cancelled."""

    code = wire.EXECUTION_TIMEOUT
    message = wire.EXECUTION_TIMEOUT_MESSAGE

    def __init__(self, interceptor: str, *, timeout_ms: int, phase: wire.Phase) -> None:
        self.timeout_ms = timeout_ms
        self.phase: wire.Phase = phase
        super().__init__(
            interceptor,
            data={"timeoutMs": timeout_ms, "phase": phase},
            detail=f"{interceptor}: no result within {timeout_ms} ms",
        )


class InterceptorFailedError(InvocationError):
    """The handler raised, or returned what its kind may not return.

    `reason` is generic and may go to a peer; the cause is chained and goes to the log.
    """

    def __init__(self, interceptor: str, reason: str) -> None:
        self.reason = reason
        super().__init__(interceptor, data={"reason": reason}, detail=f"{interceptor}: {reason}")


class AskError(InterceptorFailedError):
    """The user cannot be asked, or does not answer in time. Raised by `ask`; `reason` says why.

    A handler that lets it pass has failed, so that its policy decides; one that catches it decides itself.
    """


class LostServerError(InterceptorFailedError):
    """The connection to the server of a remote interceptor is closed."""

    def __init__(self, interceptor: str, reason: str = "the interceptor server is gone") -> None:
        super().__init__(interceptor, reason)


class ChainError(MidspanError):
    """A chain was used in a way it does not allow: an unknown name, work in the background without its block."""


class UnknownNameError(ChainError):
    """An override or an alias is for an interceptor that is not there.

    Attributes:
        name: the name that was given.
        known: the names that could have been.
    """

    def __init__(self, name: str, known: Iterable[str], problem: str) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(problem)


class NotPlainError(MidspanError, ValueError):
    """A value is not JSON: another type, a key that is no string, NaN, an infinity, a cycle, nested too deeply.

    Attributes:
        path: where, for example `$.arguments.items[2]`; its keys are the value's own.
        problem: what is wrong, never the value.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


class PeerError(MidspanError):
    """An interceptor server sent a listing or a result that cannot be used.

    Attributes:
        server: how the chain names that server.
    """

    def __init__(self, server: str, problem: str) -> None:
        self.server = server
        self.problem = problem
        super().__init__(f"interceptor server {server!r}: {problem}")
