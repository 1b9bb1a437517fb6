"""Single requests of every kind, and their answers."""

from __future__ import annotations

from typing import Any

import pytest

from .awkward import UNKNOWN, VALUES
from .ends import talking
from .eras import Era
from .pairs import Case, Form, everywhere, in_every_form, over, with_sessions

pytestmark = pytest.mark.anyio


@everywhere
async def test_meta_of_requests_and_results_and_the_progress_token(case: Case) -> None:
    async with talking(case) as ends:
        for token in ("7", 7, "", 0, 2**53 + 1, "\U0001f600"):
            await ends.exchange(
                "tools/call",
                {"name": "t", "_meta": {"z/y": [None], "progressToken": token, "": {"b": 1.0, "a": 2**60 + 1}}},
                result='{"_meta":{"io.x/y":{"z":[]},"plain":1.0,"progressToken":"its own","":null},"content":[]}',
            )
            if not case.renames:
                assert ends.server.heard[-1].params["_meta"]["progressToken"] == token


@everywhere
async def test_an_error_with_code_and_data(case: Case) -> None:
    async with talking(case) as ends:
        for code in (-32603, -32042, 404, 2**40):
            data = '{"z":[1.0,null],"a":1152921504606846977}'
            error = f'{{"message":"m \\ud800","data":{data},"code":{code},"future":1e2}}'
            await ends.exchange("tools/call", {"name": "t", "arguments": {}}, error=error, more=UNKNOWN)
            await ends.exchange("acme/turn", error=f'{{"code":{code},"message":"","data":null}}')


@everywhere
async def test_an_error_that_comes_with_a_status_of_its_own(case: Case) -> None:
    statuses = {Era.HANDSHAKE: "400 Bad Request", Era.STATELESS: "404 Not Found"}
    async with talking(case) as ends:
        error = '{"code":-32601,"message":"no such method","data":{"z":1.0}}'
        arrival = await ends.exchange("acme/none", error=error, status=statuses[case.era])
        if case.front == case.back == "http":
            assert arrival.status == int(statuses[case.era][:3])


@everywhere
@pytest.mark.parametrize(
    "ref", [{"uri": "a://{b}/{+c}", "type": "ref/resource"}, {"type": "ref/prompt", "name": "p", "title": None}]
)
async def test_completion_of_a_prompt_and_of_a_uri_template(case: Case, ref: dict[str, Any]) -> None:
    async with talking(case) as ends:
        await ends.exchange(
            "completion/complete",
            {"ref": ref, "argument": {"value": "", "name": "b"}, "context": {"arguments": {"c": "\U0001f600"}}},
            result='{"completion":{"values":["x","x"],"total":1.0,"hasMore":null,"future":[]},"future":0}',
        )


@with_sessions
async def test_subscribe_and_unsubscribe(case: Case) -> None:
    async with talking(case) as ends:
        await ends.exchange("resources/subscribe", {"uri": "a://b", "future": 1.0}, result='{"future":null}')
        await ends.exchange("resources/unsubscribe", {"uri": "a://b"}, result="{}")
        await ends.exchange("logging/setLevel", {"level": "a level of its own"}, result="{}")
        await ends.exchange("ping")


@everywhere
async def test_custom_methods_and_notifications(case: Case) -> None:
    async with talking(case) as ends:
        await ends.exchange("acme/turn", {"by": 90.0, "name": "x", "uri": 3}, result='{"turned":[[[]]],"by":9e1}')
        await ends.exchange("acme", None, result="{}")
        await ends.link.notify("notifications/acme/happened", {"z": None, "a": 1.0})
        ends.assert_heard(await ends.server.got("notifications/acme/happened"), ends.link.sent[-1])


@everywhere
async def test_several_contents_in_one_resource(case: Case) -> None:
    async with talking(case) as ends:
        await ends.exchange(
            "resources/read",
            {"uri": "a://b?\u00e9"},
            result='{"contents":[{"uri":"a://b","text":"1","mimeType":"text/x"},{"uri":"a://b","blob":"AA=="},'
            '{"uri":"a://c","text":"","_meta":{"z":null}},{"uri":"a://b","text":"1"},{"blob":"","uri":""}]}',
        )
        await ends.exchange(
            "tools/call",
            {"name": "t"},
            result='{"content":[{"text":"1","type":"text"},{"type":"text","text":"1"},{"type":"acme","z":{}},{"type":'
            '"resource_link","uri":"a://b","name":"n","size":1.0},{"type":"audio","data":"AA==","mimeType":"a/b"}]}',
        )


@in_every_form
async def test_values_that_seldom_come_through(case: Case, form: Form) -> None:
    async with talking(case, form) as ends:
        for value in VALUES.values():
            await ends.exchange(
                "tools/call",
                f'{{"name":"t","arguments":{value},"future":{value}}}',
                result=f'{{"structuredContent":{value},"content":[{{"type":"text","text":"","_meta":{value}}}]}}',
                more=UNKNOWN,
            )
            await ends.exchange("acme/turn", value, error=f'{{"code":1,"message":"m","data":{value}}}')


@everywhere
async def test_a_result_that_violates_its_own_output_schema(case: Case) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    tool = {"name": "typed", "inputSchema": {"type": "object"}, "outputSchema": schema}
    async with talking(case) as ends:
        await ends.exchange("tools/list", result={"tools": [tool]})
        for content in ('{"count":"not a number"}', "[]", "null"):
            arrival = await ends.exchange(
                "tools/call", {"name": "typed"}, result=f'{{"content":[],"structuredContent":{content}}}'
            )
            assert "isError" not in arrival.message["result"]


@everywhere
async def test_every_call_is_one_request_upstream(case: Case) -> None:
    async with talking(case) as ends:
        for number in range(3):
            await ends.exchange("tools/call", {"name": f"t{number}", "arguments": {}}, result='{"content":[]}')
        hello = ["initialize", "notifications/initialized"] if case.era is Era.HANDSHAKE else ["server/discover"]
        assert ends.server.methods() == [*hello, *["tools/call"] * 3]


@everywhere
async def test_an_id_comes_back_as_it_was(case: Case) -> None:
    async with talking(case) as ends:
        for message_id in (0, -1, 2**53 + 1, "1", 1, "", "\U0001f600 \ud800", "x" * 1000):
            await ends.exchange("tools/call", {"name": "t"}, message_id=message_id)
            if not case.renames:
                assert ends.server.heard[-1].message["id"] == message_id


@over(Era.STATELESS, where=lambda case: case.back == "http")
async def test_arguments_that_headers_repeat(case: Case) -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    async with talking(case) as ends:
        await ends.exchange("tools/list", result={"tools": [{"name": "t", "inputSchema": schema}]})
        for value, written in (("eu", "eu"), ("\u00e9", "=?base64?w6k=?="), (" x", "=?base64?IHg=?=")):
            headers = {"mcp-param-region": written} if case.front == "http" else None
            arguments = {"region": value, "other": 1}
            await ends.exchange("tools/call", {"name": "t", "arguments": arguments}, headers=headers)
            assert ends.server.heard[-1].headers["mcp-param-region"] == written
