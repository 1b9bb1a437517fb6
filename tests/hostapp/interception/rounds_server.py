"""A server of the MCP SDK whose tool asks twice: by its own requests, or since 2026-07-28 by its results.

    python rounds_server.py

serves over stdio.
"""

from __future__ import annotations

import json
from typing import Any, Final

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

STATE: Final = 'AKIA0123456789ABCDEF {"n":1.0, "e":"\\u00e9é\U0001f600"} \\ / \u2028 "quoted" \x7f ' + "x" * 2000
"""An opaque state that whoever edits or rewrites it would break."""
Request = ServerRequestContext[Any, Any]


def question(message: str, name: str) -> dict[str, Any]:
    """Return the parameters of an elicitation of one text."""
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    return {"mode": "form", "message": message, "requestedSchema": schema}


def asks(key: str, message: str, name: str, state: str) -> InputRequiredResult:
    """Return an interim result with one question."""
    asked = {"method": "elicitation/create", "params": question(message, name)}
    return InputRequiredResult.model_validate({"inputRequests": {key: asked}, "requestState": state})


def done(*found: Any) -> CallToolResult:
    """Return a result that says what the tool was told."""
    return CallToolResult(content=[TextContent(type="text", text=json.dumps(found))])


def answered(params: CallToolRequestParams, key: str) -> ElicitResult | None:
    found = (params.input_responses or {}).get(key)
    return found if isinstance(found, ElicitResult) else None


async def call(request: Request, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
    """Ask where and when; what is told last is what the first question was answered with."""
    who = (params.arguments or {}).get("who")
    if request.protocol_version >= "2026-07-28":
        if when := answered(params, "when"):
            assert params.request_state is not None
            assert params.request_state.startswith(f"{STATE}|two|")
            return done(who, json.loads(params.request_state.removeprefix(f"{STATE}|two|")), when.action, when.content)
        if where := answered(params, "where"):
            assert params.request_state == f"{STATE}|one"
            state = f"{STATE}|two|{json.dumps([where.action, where.content])}"
            return asks("when", f"When does {who} go there?", "day", state)
        return asks("where", f"Where does {who} go?", "place", f"{STATE}|one")
    first, second = question(f"Where does {who} go?", "place"), question(f"When does {who} go there?", "day")
    where = await request.session.elicit_form(first["message"], first["requestedSchema"], request.request_id)
    when = await request.session.elicit_form(second["message"], second["requestedSchema"], request.request_id)
    return done(who, [where.action, where.content], when.action, when.content)


async def tools(request: Request, params: PaginatedRequestParams | None) -> ListToolsResult:
    """List the tool."""
    return ListToolsResult(tools=[Tool(name="travel", input_schema={"type": "object"})])


def make_server() -> Server[Any]:
    """Return the server."""
    return Server("rounds", on_list_tools=tools, on_call_tool=call)


async def main() -> None:
    server = make_server()
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
