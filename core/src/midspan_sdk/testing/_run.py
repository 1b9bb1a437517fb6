"""Run one message through interceptors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import anyio

from midspan_sdk._chain import Chain
from midspan_sdk._entries import InterceptorOverrides
from midspan_sdk._exchange import Exchange
from midspan_sdk._invocation import InvocationContext
from midspan_sdk._observers import Observer
from midspan_sdk._outcome import ChainExecutionResult
from midspan_sdk.testing._answers import Answers, asker_of
from midspan_sdk.wire import Direction, Phase

_LIMIT: Final = 60.0


def run(
    *contributions: object,
    event: str,
    phase: Phase,
    payload: dict[str, Any],
    direction: Direction | None = None,
    interceptors: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
    timeout_ms: int | None = None,
    context: InvocationContext | None = None,
    exchange: Exchange | None = None,
    error: bool = False,
    overrides: Mapping[str, InterceptorOverrides | dict[str, Any]] | None = None,
    observers: Iterable[Observer] = (),
    answers: Answers | None = None,
) -> ChainExecutionResult:
    """Run one message through a chain of these interceptors, outside of an event loop, and return the result.

    Sinks and queued observers have done their work when it returns. A test that is itself asynchronous, or that sends
    several messages, makes a `Chain` and awaits its `execute`.

    Args:
        contributions: what `Chain.add` takes.
        event: the JSON-RPC method.
        phase: `request` or `response`.
        payload: the `params` or the `result` object.
        direction: as in `Chain.execute`, and so are the other arguments down to `error`.
        interceptors: run only the entries of these names.
        config: by entry name, in the place of the configured one.
        timeout_ms: the chain's own deadline in milliseconds.
        context: where the message comes from.
        exchange: the same one for a request and its response.
        error: the response is a JSON-RPC error.
        overrides: policy by interceptor name, as in `Chain.add`.
        observers: take the decision record.
        answers: what the user answers: a mapping from question to answer, or a function of the question and its schema.
            An answer is what is filled in, or `True` for a yes; `False` and None decline. A question without an answer
            fails its handler. By default nobody can be asked.

    Raises:
        TimeoutError: it took more than a minute.
    """

    async def main() -> ChainExecutionResult:
        with anyio.fail_after(_LIMIT):
            async with Chain(observers=observers, ask=asker_of(answers)) as chain:
                chain.add(*contributions, overrides=overrides)
                return await chain.execute(
                    event=event,
                    phase=phase,
                    payload=payload,
                    direction=direction,
                    interceptors=interceptors,
                    config=config,
                    timeout_ms=timeout_ms,
                    context=context,
                    exchange=exchange,
                    error=error,
                )

    return anyio.run(main)
