"""A tool that asks twice ends as it does directly, whatever interceptors change on the way."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import ElicitRequestParams, ElicitResult, TextContent

from midspan.http import listen, run_server
from midspan_sdk import Answer, mutator, validator
from tests.hostapp.http.wire import STATELESS_META
from tests.hostapp.relay.harness import guarded, request, send
from tests.hostapp.relay.harness import result as result_line
from tests.patience import PATIENCE

from . import rounds_server
from .ways import EACH_WAY, Era, Way, linked, served

pytestmark = pytest.mark.anyio

PLUGINS: Final = ("--plugin", "secrets", "--plugin-file")
SERVER: Final = Path(rounds_server.__file__)
PLUGIN: Final = """
from midspan_sdk import hookimpl, mutator, validator

@validator(events=["*"], phase="both", errors=True)
def looks(payload):
    return None

@mutator(events=["*"], phase="both", errors=True)
async def copies(payload):
    return {**payload}

@mutator(events=["tools/call"], phase="request")
def who(payload):
    return {**payload, "arguments": {"who": payload["arguments"]["who"].upper()}}

@mutator(events=["elicitation/create"], phase="request")
def question(payload):
    return {**payload, "message": payload["message"] + " (asked by a server)"}

@mutator(events=["elicitation/create"], phase="response")
def answer(payload):
    told = {key: value.strip() for key, value in payload["content"].items()}
    return {**payload, "content": told}

@hookimpl
def midspan_interceptors():
    return [looks, copies, who, question, answer]
"""
Connect = Callable[[Path], AbstractAsyncContextManager[str | StdioServerParameters]]
"""Starts the command with a plugin file in front of the server; yields where a client finds it."""


@asynccontextmanager
async def running() -> AsyncGenerator[str]:
    """Serve the server over HTTP; yields its URL."""
    app = rounds_server.make_server().streamable_http_app()
    listener = listen("127.0.0.1", 0)
    listener.listen(64)
    stop = asyncio.Event()
    async with app.router.lifespan_context(app):
        task = asyncio.create_task(run_server(app, listener, stop=stop))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            stop.set()
            await task


@asynccontextmanager
async def over_stdio(plugin: Path) -> AsyncGenerator[StdioServerParameters]:
    command = ["-m", "midspan", "run", *PLUGINS, str(plugin), "--", sys.executable, str(SERVER)]
    yield StdioServerParameters(command=sys.executable, args=command)


@asynccontextmanager
async def to_a_url(plugin: Path) -> AsyncGenerator[str]:
    async with running() as url, served(*PLUGINS, str(plugin), "--url", url) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def to_a_command(plugin: Path) -> AsyncGenerator[str]:
    async with served(*PLUGINS, str(plugin), "--", sys.executable, str(SERVER)) as port:
        yield f"http://127.0.0.1:{port}/mcp"


CONNECTIONS: Final[dict[str, Connect]] = {"run": over_stdio, "url": to_a_url, "serve": to_a_command}


async def travel(server: Any, mode: str, who: str, answers: dict[str, str]) -> tuple[Any, list[str]]:
    """Call the tool; returns what it was told, and what the client was asked."""
    asked: list[str] = []

    async def elicit(context: object, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        (name,) = params.requested_schema["properties"]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType] - of a form
        return ElicitResult(action="accept", content={name: answers[name]})

    async with Client(server, mode=mode, elicitation_callback=elicit) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        result = await client.call_tool("travel", {"who": who})
        assert not result.is_error, result
        (block,) = result.content
        assert isinstance(block, TextContent)
        return json.loads(block.text), asked


@pytest.mark.parametrize("way", CONNECTIONS)
async def test_a_tool_that_asks_twice_ends_as_it_does_directly(tmp_path: Path, way: str) -> None:
    plugin = tmp_path / "rounds.py"
    plugin.write_text(PLUGIN)
    with anyio.fail_after(PATIENCE):
        async with CONNECTIONS[way](plugin) as front:
            for mode in ("legacy", "auto"):
                told, asked = await travel(front, mode, "ada", {"place": " London ", "day": "Monday "})
                # Directly, with what the interceptors make of it.
                direct = await travel(rounds_server.make_server(), mode, "ADA", {"place": "London", "day": "Monday"})
                assert (told, asked) == (direct[0], [f"{message} (asked by a server)" for message in direct[1]])
                assert told == ["ADA", ["accept", {"place": "London"}], "accept", {"day": "Monday"}]


# In the hands of a raw client

STATE: Final = rounds_server.STATE + "\x00\ud800"
QUESTIONS: Final[dict[str, dict[str, Any]]] = {
    "elicitation/create": {"message": "planted p4ssw0rd", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [], "systemPrompt": "planted p4ssw0rd", "maxTokens": 5},
    "roots/list": {"_meta": {"example.org/x": "planted p4ssw0rd"}},
}
ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "elicitation/create": {"action": "accept", "content": {"a": "given p4ssw0rd"}},
    "sampling/createMessage": {
        "role": "assistant",
        "model": "m",
        "content": {"type": "text", "text": "given p4ssw0rd"},
    },
    "roots/list": {"roots": [{"uri": "file:///x", "name": "given p4ssw0rd"}]},
}
CHANGES: Final = """
import json
from midspan_sdk import hookimpl, mutator, validator

KINDS = ["elicitation/create", "sampling/createMessage", "roots/list"]

@mutator(events=KINDS, phase="both", errors=True)
def redact(payload):
    return json.loads(json.dumps(payload).replace("p4ssw0rd", "***"))

@validator(events=KINDS, phase="request")
def no_forbidden(payload):
    return "forbidden" if "forbidden" in json.dumps(payload) else None

@validator(events=KINDS, phase="response")
def no_refused(payload):
    return "refused" if "refused" in json.dumps(payload) else None

@hookimpl
def midspan_interceptors():
    return [redact, no_forbidden, no_refused]
"""


def script_of(era: Era) -> dict[str, list[dict[str, Any]]]:
    script: dict[str, list[dict[str, Any]]] = {}
    for kind, params in QUESTIONS.items():
        for name, asked in {"": params, " forbidden": {**params, "_meta": {"example.org/y": "forbidden"}}}.items():
            if era == "handshake":
                question = {"id": f"q{name}", "method": kind, "params": asked}
                script[f"tools/call {kind}{name}"] = [question, {"result": {"content": []}}]
            else:
                questions: dict[str, Any] = {
                    "first": {"method": kind, "params": asked},
                    "rest": {"method": "custom/kind", "params": {}},
                }
                interim: dict[str, Any] = {
                    "resultType": "input_required",
                    "inputRequests": questions,
                    "requestState": STATE,
                }
                script[f"tools/call {kind}{name}"] = [{"result": interim}]
    return script


@pytest.mark.parametrize(("way", "eras"), EACH_WAY, ids=str)
async def test_questions_and_answers_pass_the_chain_whatever_form_they_have(
    tmp_path: Path, way: Way, eras: list[Era]
) -> None:
    plugin = tmp_path / "changes.py"
    plugin.write_text(CHANGES)
    async with linked(way, eras, tmp_path, script_of, *PLUGINS, str(plugin)) as link:
        for client in link.clients:
            await client.open()
            for kind, answer in ANSWERS.items():
                refused = {**answer, "_meta": {"example.org/y": "refused"}}
                call: dict[str, Any] = {"name": kind, "arguments": {}}
                forbidden: dict[str, Any] = {"name": f"{kind} forbidden", "arguments": {}}
                before = len(link.reached())
                if client.era == "handshake":
                    for params, reply in ((call, answer), (call, refused), (forbidden, answer)):
                        client.asked.clear()
                        await client.ask("tools/call", params, replies={kind: {"result": reply}})
                        # What is forbidden never got here.
                        asked = [json.dumps(request["params"]) for request in client.asked]
                        assert [("forbidden" in one, "planted ***" in one) for one in asked] == (
                            [] if params is forbidden else [(False, True)]
                        )
                    await client.works()
                    told = [one for one in link.reached()[before:] if "method" not in one]
                    assert "given ***" in json.dumps(told[0]["result"])
                    # The server that asked hears that it gets no answer.
                    assert [one.get("error", {}).get("code") for one in told] == [None, -32602, -32602]
                    continue
                (interim,) = await client.ask("tools/call", call)
                assert interim["result"]["requestState"] == STATE
                first, rest = interim["result"]["inputRequests"].values()
                assert first["method"] == kind
                assert "planted ***" in json.dumps(first["params"])
                assert rest == {"method": "custom/kind", "params": {}}
                (denied,) = await client.ask("tools/call", forbidden)
                assert denied["result"]["isError"] is True
                assert "planted" not in json.dumps(denied)
                again = {**call, "requestState": STATE, "inputResponses": {"first": answer}}
                await client.ask("tools/call", again)
                (denied,) = await client.ask("tools/call", {**again, "inputResponses": {"first": refused}})
                assert denied["result"]["isError"] is True
                assert "The tool did not run." in json.dumps(denied)
                await client.works()
                _, _, arrived, good = link.reached()[before:]
                assert arrived["params"]["requestState"] == STATE
                assert "given ***" in json.dumps(arrived["params"]["inputResponses"]["first"])
                assert good["params"]["name"] == "good"
            assert b"p4ssw0rd" not in client.received
        assert "p4ssw0rd" not in json.dumps(link.reached())


# What two readers may take for different questions


@validator(events=["elicitation/create"], phase="both")
def looks(payload: dict[str, Any]) -> str | None:
    return "no" if "no" in payload or "no" in json.dumps(payload.get("content")) else None


ASK: Final[dict[str, Any]] = {"method": "elicitation/create", "params": {"message": "?"}}
UNCLEAR: Final[dict[str, dict[str, Any]]] = {
    "a list": {"inputRequests": [ASK]},
    "another spelling": {"inputrequests": {"a": ASK}},
    "both spellings": {"inputRequests": {"a": ASK}, "InputRequests": {"a": ASK}},
    "no question": {"inputRequests": {"a": "?"}},
    "no method": {"inputRequests": {"a": {"params": {}}}},
    "a method that is none": {"inputRequests": {"a": {**ASK, "method": ["elicitation/create"]}}},
    "two methods": {"inputRequests": {"a": {"method": "roots/list", "Method": "elicitation/create"}}},
    "params that are none": {"inputRequests": {"a": {**ASK, "params": "no"}}},
    "two params": {"inputRequests": {"a": {**ASK, "PARAMS": {"no": 1}}}},
}


@pytest.mark.parametrize("name", UNCLEAR)
async def test_questions_that_are_not_clear_never_arrive(log: Path, name: str) -> None:
    interim = {"resultType": "input_required", "requestState": "s", **UNCLEAR[name]}
    async with guarded(log, looks) as link:
        answer = await link.call(1, "tools/call", {"name": "t", "_meta": STATELESS_META}, send(result_line(1, interim)))
        assert answer["error"]["code"] == -32603
        await link.works()


async def test_what_nothing_matches_leaves_questions_as_they_came(log: Path) -> None:
    interim = json.dumps({"resultType": "input_required", "inputRequests": {"a": "?", "b": {**ASK, "n": 1.0}}})
    line = f'{{"jsonrpc": "2.0",  "id": 1, "result": {interim}}}'

    @validator(events=["prompts/get"], phase="both")
    def elsewhere(payload: dict[str, Any]) -> None: ...

    async with guarded(log, elsewhere) as link:
        await link.send(request(1, "tools/call", {"name": "t"}, send(line)))
        assert await link.receive() == line.encode()


@pytest.mark.parametrize(
    ("reply", "passes"),
    [
        ({"action": "accept", "content": {"a": "yes"}}, True),
        ({"action": "accept", "content": {"a": "no"}}, False),
        ({"content": {"a": "no"}}, False),
        ({"Action": "accept", "content": {"a": "no"}}, False),
        ({"roots": [], "action": "accept", "content": {"a": "no"}}, False),
        ({"role": "user", "model": "m", "content": {"type": "text", "text": "no"}}, True),
        ({"roots": [{"uri": "file:///no"}]}, True),
        ("no", False),
        (None, False),
    ],
    ids=range(9),
)
async def test_an_answer_is_judged_as_all_that_it_could_be(log: Path, reply: Any, passes: bool) -> None:
    params = {"name": "t", "inputResponses": {"a": reply}, "_meta": STATELESS_META}
    async with guarded(log, looks) as link:
        answer = await link.call(1, "tools/call", params)
        assert ("error" not in answer and not answer["result"].get("isError")) is passes
        await link.works()
        assert len(link.seen()) == 1 + passes


async def test_nobody_answers_a_question_in_a_result_in_the_clients_place(log: Path) -> None:
    @mutator(events=["elicitation/create"], phase="request")
    def declines(payload: dict[str, Any]) -> Answer:
        return Answer({"action": "decline"})

    interim = {"resultType": "input_required", "inputRequests": {"a": ASK}}
    async with guarded(log, declines) as link:
        answer = await link.call(1, "tools/call", {"name": "t", "_meta": STATELESS_META}, send(result_line(1, interim)))
        assert answer["error"]["code"] == -32603
        await link.works()
