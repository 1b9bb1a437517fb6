"""The server, and its ASGI application."""

from __future__ import annotations

import warnings
from typing import Any

from mcp import MCPDeprecationWarning
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import (
    CompleteRequestParams,
    CompleteResult,
    ElicitResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    JSONRPCMessage,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from starlette.applications import Starlette

from . import asking, content
from .tools import Tools

Request = ServerRequestContext[Any, Any]
NAME = "everything"
RETRY = 100
"""Milliseconds that a client is told to wait before it resumes a stream."""
_ASKING_PROMPT = "test_input_required_result_prompt"


class Events(EventStore):
    """Keeps every event, for clients that resume a stream."""

    def __init__(self) -> None:
        self._events: list[tuple[StreamId, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep an event and return its id."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send the later events of the same stream again."""
        last = int(last_event_id)
        if not 0 < last <= len(self._events):
            return None
        stream = self._events[last - 1][0]
        for number, (owner, message) in enumerate(self._events[last:], last + 1):
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Everything:
    """What is behind each method."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.tools = Tools(self.bus)

    async def list_tools(self, request: Request, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=self.tools.listing())

    async def list_prompts(self, request: Request, params: PaginatedRequestParams | None) -> ListPromptsResult:
        asks = Prompt(name=_ASKING_PROMPT, description="Asks for its context.")
        return ListPromptsResult(prompts=[*content.prompts(), asks])

    async def get_prompt(
        self, request: Request, params: GetPromptRequestParams
    ) -> GetPromptResult | InputRequiredResult:
        if params.name != _ASKING_PROMPT:
            return content.get_prompt(params.name, params.arguments or {})
        answer = (params.input_responses or {}).get("user_context")
        if not isinstance(answer, ElicitResult):
            question = asking.elicitation("What context?", asking.property_schema("context", "string"))
            return asking.input_required({"user_context": question})
        message = PromptMessage(role="user", content=content.text(f"In the context {answer.content}."))
        return GetPromptResult(messages=[message])

    async def list_resources(self, request: Request, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(resources=content.RESOURCES)

    async def list_templates(
        self, request: Request, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=content.TEMPLATES)

    async def read_resource(self, request: Request, params: ReadResourceRequestParams) -> ReadResourceResult:
        return content.read(str(params.uri))

    async def subscribe(self, request: Request, params: SubscribeRequestParams) -> EmptyResult:
        return EmptyResult()

    async def unsubscribe(self, request: Request, params: UnsubscribeRequestParams) -> EmptyResult:
        return EmptyResult()

    async def complete(self, request: Request, params: CompleteRequestParams) -> CompleteResult:
        return content.complete(params.argument.value)

    async def set_level(self, request: Request, params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()


def make_server() -> Server[Any]:
    """Return the server."""
    everything = Everything()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)  # setting the log level, of the handshake era
        server = Server[Any](  # pyright: ignore[reportDeprecated]
            NAME,
            version="1.0",
            get_tool_input_schema=everything.tools.schema,
            on_list_tools=everything.list_tools,
            on_call_tool=everything.tools.call,
            on_list_prompts=everything.list_prompts,
            on_get_prompt=everything.get_prompt,
            on_list_resources=everything.list_resources,
            on_list_resource_templates=everything.list_templates,
            on_read_resource=everything.read_resource,
            on_subscribe_resource=everything.subscribe,
            on_unsubscribe_resource=everything.unsubscribe,
            on_completion=everything.complete,
            on_set_logging_level=everything.set_level,
            on_subscriptions_listen=ListenHandler(everything.bus),
        )
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server


def make_app() -> Starlette:
    """Return the application, with the endpoint at `/mcp`."""
    return make_server().streamable_http_app(event_store=Events(), retry_interval=RETRY)
