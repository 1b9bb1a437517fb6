"""The tools, by the names that the suite calls them by."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
from mcp import MCPDeprecationWarning, MCPError
from mcp.server import ServerRequestContext
from mcp.server.subscriptions import PromptsListChanged, SubscriptionBus, ToolsListChanged
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    CreateMessageResult,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
    Tool,
)

from . import asking
from .content import audio, embedded, image, text

Request = ServerRequestContext[Any, Any]
Result = CallToolResult | InputRequiredResult
Handler = Callable[[Request, CallToolRequestParams], Awaitable[Result]]

NO_ARGUMENTS: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_STEP: Final = 0.05
"""Seconds between two steps of a tool that takes its time."""

DIALECT_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def said(*content: ContentBlock) -> CallToolResult:
    """Return a result of these blocks."""
    return CallToolResult(content=list(content))


def _answer(params: CallToolRequestParams, key: str, kind: type[Any]) -> Any:
    """Return the client's answer to one question, or None when there is no good one."""
    found = (params.input_responses or {}).get(key)
    return found if isinstance(found, kind) else None


def _answered(params: CallToolRequestParams, key: str, field: str) -> Any:
    answer = _answer(params, key, ElicitResult)
    if not isinstance(answer, ElicitResult) or answer.action != "accept":
        return None
    return (answer.content or {}).get(field)


class Tools:
    """All tools.

    Args:
        bus: tells of changed listings.
    """

    def __init__(self, bus: SubscriptionBus) -> None:
        self._bus = bus
        self._handlers: dict[str, tuple[Handler, Mapping[str, Any]]] = {}
        for name in dir(self):
            if name.startswith("test_"):
                self._handlers[name] = (getattr(self, name), _SCHEMAS.get(name, NO_ARGUMENTS))
        self._handlers["json_schema_2020_12_tool"] = (self._nothing, DIALECT_SCHEMA)

    def listing(self) -> list[Tool]:
        """Return all descriptions."""
        return [
            Tool(name=name, description=f"The tool {name}.", input_schema=dict(schema))
            for name, (_, schema) in self._handlers.items()
        ]

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return what a tool takes, for the server's check of headers."""
        found = self._handlers.get(name)
        return found[1] if found is not None else None

    async def call(self, request: Request, params: CallToolRequestParams) -> Result:
        """Call a tool.

        Raises:
            MCPError: there is none of that name, or it needs what the client cannot do.
        """
        found = self._handlers.get(params.name)
        if found is None:
            raise MCPError(INVALID_PARAMS, "no such tool", {"name": params.name})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # of what only the handshake era has
            return await found[0](request, params)

    async def _nothing(self, request: Request, params: CallToolRequestParams) -> Result:
        return said(text("nothing"))

    # What a tool can return

    async def test_simple_text(self, request: Request, params: CallToolRequestParams) -> Result:
        return said(text("A simple text."))

    async def test_image_content(self, request: Request, params: CallToolRequestParams) -> Result:
        return said(image())

    async def test_audio_content(self, request: Request, params: CallToolRequestParams) -> Result:
        return said(audio())

    async def test_embedded_resource(self, request: Request, params: CallToolRequestParams) -> Result:
        return said(embedded("test://embedded-resource", "An embedded text."))

    async def test_multiple_content_types(self, request: Request, params: CallToolRequestParams) -> Result:
        resource = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
        return said(text("Several:"), image(), resource)

    async def test_error_handling(self, request: Request, params: CallToolRequestParams) -> Result:
        return CallToolResult(content=[text("It failed, as it should.")], is_error=True)

    async def test_x_mcp_header(self, request: Request, params: CallToolRequestParams) -> Result:
        return said(text(f"In {(params.arguments or {}).get('region')}."))

    # What a tool can say meanwhile

    async def test_tool_with_logging(self, request: Request, params: CallToolRequestParams) -> Result:
        for number, word in enumerate(("started", "goes on", "is done")):
            await anyio.sleep(_STEP if number else 0)
            await request.session.send_log_message(  # pyright: ignore[reportDeprecated] # of the handshake era
                "info", f"It {word}.", related_request_id=request.request_id
            )
        return said(text("Logged."))

    test_logging_tool = test_tool_with_logging

    async def test_tool_with_progress(self, request: Request, params: CallToolRequestParams) -> Result:
        for progress in (0, 50, 100):
            await anyio.sleep(_STEP if progress else 0)
            await request.session.report_progress(progress, 100)
        return said(text("Done."))

    async def test_trigger_tool_change(self, request: Request, params: CallToolRequestParams) -> Result:
        await self._bus.publish(ToolsListChanged())
        return said(text("Told."))

    async def test_trigger_prompt_change(self, request: Request, params: CallToolRequestParams) -> Result:
        await self._bus.publish(PromptsListChanged())
        return said(text("Told."))

    async def test_reconnection(self, request: Request, params: CallToolRequestParams) -> Result:
        if request.close_sse_stream is not None:
            await request.close_sse_stream()
        await anyio.sleep(_STEP)
        return said(text("Said after the stream was closed."))

    # Asking in the handshake era

    async def test_sampling(self, request: Request, params: CallToolRequestParams) -> Result:
        prompt = SamplingMessage(role="user", content=text(str((params.arguments or {}).get("prompt", ""))))
        answer = await request.session.create_message(  # pyright: ignore[reportDeprecated] # of the handshake era
            [prompt], max_tokens=100, related_request_id=request.request_id
        )
        return said(text(f"The model said: {_text_of(answer)}"))

    async def test_elicitation(self, request: Request, params: CallToolRequestParams) -> Result:
        return await self._elicit(request, str((params.arguments or {}).get("message", "")), asking.USER_SCHEMA)

    async def test_elicitation_sep1034_defaults(self, request: Request, params: CallToolRequestParams) -> Result:
        return await self._elicit(request, "Take the defaults?", asking.DEFAULTS_SCHEMA)

    async def test_elicitation_sep1330_enums(self, request: Request, params: CallToolRequestParams) -> Result:
        return await self._elicit(request, "Choose.", asking.ENUMS_SCHEMA)

    async def _elicit(self, request: Request, message: str, schema: dict[str, Any]) -> Result:
        answer = await request.session.elicit_form(message, schema, related_request_id=request.request_id)
        return said(text(f"Elicitation completed: action={answer.action}, content={answer.content}"))

    # Asking since 2026-07-28

    async def test_missing_capability(self, request: Request, params: CallToolRequestParams) -> Result:
        capabilities = request.session.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "needs sampling", needed)
        return said(text("The client can."))

    async def test_streaming_elicitation(self, request: Request, params: CallToolRequestParams) -> Result:
        await request.session.report_progress(1, 2)
        return await self.test_input_required_result_elicitation(request, params)

    async def test_input_required_result_elicitation(self, request: Request, params: CallToolRequestParams) -> Result:
        name = _answered(params, "user_name", "name")
        if not isinstance(name, str):
            question = asking.elicitation("What is your name?", asking.NAME_SCHEMA)
            return asking.input_required({"user_name": question})
        return said(text(f"Hello, {name}!"))

    async def test_input_required_result_sampling(self, request: Request, params: CallToolRequestParams) -> Result:
        answer = _answer(params, "capital_question", CreateMessageResult)
        if answer is None:
            return asking.input_required({"capital_question": asking.sampling("What is the capital of France?")})
        return said(text(f"The model said: {_text_of(answer)}"))

    async def test_input_required_result_list_roots(self, request: Request, params: CallToolRequestParams) -> Result:
        answer = _answer(params, "client_roots", ListRootsResult)
        if answer is None:
            return asking.input_required({"client_roots": asking.roots()})
        return said(text(f"Roots: {', '.join(str(root.uri) for root in answer.roots)}"))

    async def test_input_required_result_request_state(self, request: Request, params: CallToolRequestParams) -> Result:
        # What comes back here was sealed and checked by the SDK, so that it is what was given out.
        if params.request_state == "asked" and _answered(params, "confirm", "ok") is not None:
            return said(text("state-ok"))
        question = asking.elicitation("Please confirm", asking.property_schema("ok", "boolean"))
        return asking.input_required({"confirm": question}, "asked")

    test_input_required_result_tampered_state = test_input_required_result_request_state

    async def test_input_required_result_multiple_inputs(
        self, request: Request, params: CallToolRequestParams
    ) -> Result:
        wanted = {
            "user_name": asking.elicitation("What is your name?", asking.NAME_SCHEMA),
            "greeting": asking.sampling("Generate a greeting", 50),
            "client_roots": asking.roots(),
        }
        if params.request_state == "several" and wanted.keys() <= (params.input_responses or {}).keys():
            return said(text("All there."))
        return asking.input_required(wanted, "several")

    async def test_input_required_result_multi_round(self, request: Request, params: CallToolRequestParams) -> Result:
        if params.request_state == "two" and (color := _answered(params, "step2", "color")) is not None:
            return said(text(f"You like {color}."))
        if params.request_state == "one" and _answered(params, "step1", "name") is not None:
            question = asking.elicitation("Your favourite colour?", asking.property_schema("color", "string"))
            return asking.input_required({"step2": question}, "two")
        return asking.input_required({"step1": asking.elicitation("Your name?", asking.NAME_SCHEMA)}, "one")

    async def test_input_required_result_capabilities(self, request: Request, params: CallToolRequestParams) -> Result:
        capabilities = request.session.client_capabilities
        wanted: dict[str, Any] = {}
        if capabilities is not None and capabilities.elicitation is not None:
            wanted["name"] = asking.elicitation("Your name?", asking.NAME_SCHEMA)
        if capabilities is not None and capabilities.sampling is not None:
            wanted["greeting"] = asking.sampling("Generate a greeting")
        return asking.input_required(wanted) if wanted else said(text("The client can be asked nothing."))


def _text_of(answer: Any) -> str:
    return answer.content.text if isinstance(answer.content, TextContent) else str(answer.content)


def _one(name: str) -> dict[str, Any]:
    return asking.property_schema(name, "string")


_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "test_sampling": _one("prompt"),
    "test_elicitation": _one("message"),
    "test_x_mcp_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
}
