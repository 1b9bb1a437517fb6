"""What an invocation knows of the message, the caller and its state."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from midspan_sdk._model import WireModel
from midspan_sdk._plain import plain_object
from midspan_sdk.wire import Phase


class Principal(WireModel):
    """On whose behalf a message travels.

    Attributes:
        type: `user`, `service` or `anonymous`.
        id: who, in the words of whoever authenticated them.
        claims: what was asserted of them.
    """

    type: Literal["user", "service", "anonymous"]
    id: str | None = None
    claims: dict[str, Any] | None = None


class InvocationContext(WireModel):
    """Where a message comes from.

    Attributes:
        principal: on whose behalf; on stdio the user.
        trace_id: trace id of the message's trace context.
        span_id: span id of the same.
        timestamp: ISO 8601, always sent on the wire; the sender's clock when left out.
        session_id: the session, which ties messages together.
        server: name of the guarded server, as the operator's config has it.
        flow: ties together what one client does across servers.
        protocol_version: the negotiated protocol revision.
    """

    principal: Principal | None = None
    trace_id: str | None = None
    span_id: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    server: str | None = None
    flow: str | None = None
    protocol_version: str | None = None


EMPTY_CONTEXT = InvocationContext()


class Invocation:
    """One call of one interceptor, for handlers that ask for `invocation`.

    Attributes:
        interceptor: the name under which it was called.
        event: the JSON-RPC method.
        phase: `request` or `response`.
        timeout_ms: how long it may take, in milliseconds.
        context: where the message comes from.
    """

    __slots__ = ("_cancelled", "context", "event", "interceptor", "phase", "timeout_ms")

    def __init__(
        self, *, interceptor: str, event: str, phase: Phase, timeout_ms: int, context: InvocationContext
    ) -> None:
        self.interceptor = interceptor
        self.event = event
        self.phase: Phase = phase
        self.timeout_ms = timeout_ms
        self.context = context
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more. A `blocking` handler should look now and then and return."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Mark the invocation as cancelled. The chain calls this; a handler has no reason to."""
        self._cancelled.set()


class State(dict[str, Any]):
    """JSON values that a plugin keeps: for one exchange (`state`) or one session (`session_state`).

    An ordinary dict. What is put into it must be JSON, because the same plugin may run in another process.
    """


class ToolCatalog(Protocol):
    """The tools of the guarded server, learnt from listings that passed; asks for nothing itself.

    It holds them as the client was shown them, after mutators, and does not change while a message is judged. It is
    empty until the client has listed the tools. A dictionary of tools by name is one too, for tests.
    """

    def get(self, name: str, /) -> Mapping[str, Any] | None:
        """Return the tool as it was last listed, a copy of the handler's own; None when it was not listed."""
        ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


class ToolsView:
    """What a handler gets of a catalogue: every tool is a copy, so that nobody sees what becomes of it."""

    __slots__ = ("_tools",)

    def __init__(self, tools: ToolCatalog) -> None:
        self._tools = tools

    def get(self, name: str, /) -> Mapping[str, Any] | None:
        """Return a copy of a tool, or None."""
        tool = self._tools.get(name)
        return None if tool is None else plain_object(tool)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


class Ask(Protocol):
    """Puts a question to the user and waits for the answer.

    What the handler is to answer to waits too, and no deadline of the interceptor runs meanwhile. Where the protocol
    cannot wait (2026-07-28), the handler is ended at the question, and runs again from its start when the answer is
    there, as often as it asks: so it should do nothing before a question that must not be done twice, and ask the same
    questions of the same message.
    """

    async def __call__(self, message: str, *, schema: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        """Ask.

        Args:
            message: the question, for a person; at most 16,384 letters.
            schema: JSON Schema of the answer, `{"type": "object", "properties": {...}}`, whose properties are plain
                values or lists of them, as elicitation allows; None for a plain yes or no.

        Returns:
            When the user accepted, what was filled in, a copy that fits the schema; without a schema
            `{"confirmed": True}`. None when the user declined, or put the question away.

        Raises:
            AskError: nobody can be asked, or nobody answered in time. A handler that lets it pass has failed: the
                message is denied with that reason, unless the interceptor fails open. In audit mode nobody is asked.
            TypeError: the question is no text.
            ValueError: it is too long, or the schema is none that elicitation allows.
        """
        ...
