"""The SDK's client with a user behind it, its server, and gateways of all kinds between them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types as types
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer

from midspan import Gateway
from midspan_sdk import Chain, DecisionRecord, Interceptor
from tests.hostapp.embedding.sample import at_url, over_stdio
from tests.patience import PATIENCE

ERAS = ["legacy", "auto"]
"""`legacy` is a handshake, `auto` the 2026-07-28 revision."""
WAYS = ["stdio", "http to http", "http to lines"]


class Keeping:
    """A durable observer."""

    name = "keeping"
    durable = True

    def __init__(self) -> None:
        self.records: list[DecisionRecord] = []

    async def observe(self, record: DecisionRecord) -> None:
        self.records.append(record)

    def of(self, event: str, phase: str = "request") -> list[DecisionRecord]:
        return [record for record in self.records if (record.event, record.phase) == (event, phase)]


class Tools:
    """A server, and what it ran.

    Attributes:
        ran: the calls that reached it.
    """

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.server = MCPServer("behind")
        self.server.tool()(self.delete)
        self.server.tool()(self.survey)

    async def delete(self, path: str) -> str:
        """Delete a file."""
        self.ran.append(path)
        return f"deleted {path}"

    async def survey(self, ctx: Context) -> str | types.InputRequiredResult:
        """Ask two questions of its own, one after the other."""
        given, state = ctx.input_responses, ctx.request_state
        self.ran.append(f"survey {state}")
        if state is None:
            return question("name", "Your name?", "asked the name")
        assert given is not None
        (answer,) = given.values()
        assert isinstance(answer, types.ElicitResult)
        assert answer.content is not None
        if state == "asked the name":
            return question("age", "Your age?", f"name {answer.content['value']}")
        return f"{state}, age {answer.content['value']}"


def question(key: str, message: str, state: str) -> types.InputRequiredResult:
    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.InputRequiredResult(input_requests={key: types.ElicitRequest(params=form)}, request_state=state)


class User:
    """Answers a client's questions.

    Attributes:
        asked: the questions, in order.
    """

    def __init__(self, **answers: Any) -> None:
        self.asked: list[str] = []
        self.schemas: list[Any] = []
        self._answers = answers

    async def __call__(self, context: object, params: Any) -> types.ElicitResult | types.ErrorData:
        self.asked.append(params.message)
        self.schemas.append(params.requested_schema)
        answer: Any = self._answers[params.message.split(" ")[0].strip("?").lower()]
        if isinstance(answer, types.ErrorData):
            return answer
        if callable(answer):
            answer = await cast("Callable[[], Awaitable[Any]]", answer)()
        if isinstance(answer, dict):
            return types.ElicitResult(action="accept", content=cast("dict[str, Any]", answer))
        return types.ElicitResult(action=answer)


@asynccontextmanager
async def asking(
    way: str,
    era: str,
    tools: Tools,
    *interceptors: Interceptor[..., Any],
    user: User | None = None,
    observers: Sequence[Any] = (),
    overrides: Any = None,
    **options: Any,
) -> AsyncGenerator[Client]:
    """Connect the SDK's client with its server through a gateway."""
    chain = Chain(gives=("session", "store", "tools", "ask"), observers=observers, timeout=5.0)
    chain.add(*interceptors, overrides=overrides)
    with anyio.fail_after(PATIENCE):
        async with chain, AsyncExitStack() as stack:
            backend: Any = tools.server
            if way == "http to http":
                backend = await stack.enter_async_context(at_url(Gateway(tools.server)))
            gateway = Gateway(backend, chain, **options)
            target: Any
            if way == "stdio":
                target = over_stdio(gateway)
            else:
                target = await stack.enter_async_context(at_url(gateway))
            yield await stack.enter_async_context(Client(target, mode=era, elicitation_callback=user))


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text
