"""What a mutator changed is still what the client was promised, or the client is told so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midspan.interception import ANSWER_KEY, OUTPUT_RULE, VERDICT_KEY, Denials
from midspan_sdk import Answer, DecisionRecord, Interceptor, mutator, validator
from tests.hostapp.relay.harness import Link, guarded, request, result, send

pytestmark = pytest.mark.anyio

LIST, CALL = "tools/list", "tools/call"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "who": {"type": "string", "pattern": "^[a-z]+$"}},
    "required": ["total"],
}
GOOD: dict[str, Any] = {"total": 1, "who": "me"}
STATELESS = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
ERAS = pytest.mark.parametrize("meta", [None, STATELESS])


class Kept:
    """An observer that keeps what it sees."""

    name = "kept"
    durable = True

    def __init__(self) -> None:
        self.records: list[DecisionRecord] = []

    async def observe(self, record: DecisionRecord) -> None:
        self.records.append(record)


def changing(change: Callable[[Any], Any], events: tuple[str, ...] = (CALL,), **options: Any) -> Interceptor[..., Any]:
    """Return a mutator that replaces the structured content."""

    @mutator(events=list(events), phase="response", name="change", **options)
    def handler(payload: dict[str, Any]) -> Any:
        return {**payload, "structuredContent": change(payload.get("structuredContent"))}

    return handler


def without(payload: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name != key}


def tool(schema: Any = SCHEMA, name: str = "t") -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema}


async def show(link: Link, *tools: dict[str, Any], meta: Any = None) -> Any:
    page: dict[str, Any] = {"tools": list(tools) or [tool()]}
    params = {"_meta": meta} if meta else {}
    return await link.call("list", LIST, params, send(result("list", page)))


async def get(link: Link, value: Any, meta: Any = None, name: str = "t") -> Any:
    """Call the tool; the server answers with this result."""
    params = {"name": name} | ({"_meta": meta} if meta else {})
    return (await link.call("call", CALL, params, send(result("call", value))))["result"]


def content(structured: Any = GOOD, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "s3cr3t"}], "structuredContent": structured, **more}


BROKEN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a wrong type": (lambda _: {"total": "s3cr3t"}, "properties/total/type"),
    "a pattern": (lambda _: {"total": 1, "who": "[s3cr3t]"}, "properties/who/pattern"),
    "a missing key": (lambda _: {}, "required"),
    "no object": (lambda _: None, "type"),
}


@ERAS
@pytest.mark.parametrize("case", BROKEN)
async def test_a_result_that_a_mutator_broke_is_withheld_and_the_client_told_not_to_retry(
    log: Path, meta: Any, case: str
) -> None:
    change, where = BROKEN[case]
    kept = Kept()
    async with guarded(log, changing(change), observers=[kept]) as link:
        await show(link, meta=meta)
        answer = await get(link, content(), meta)
    record = kept.records[-1]
    reason = f"the changed result does not fit the tool's outputSchema: at {where}"
    assert answer["isError"] is True
    assert ("resultType" in answer) == (meta is not None)
    assert "structuredContent" not in answer
    assert answer["content"][0]["text"] == (
        f"Blocked by {OUTPUT_RULE}: {reason}. The tool ran, and its result was withheld. Do not retry: it would run "
        f"again. Decision {record.decision_id}."
    )
    verdict = answer["_meta"][VERDICT_KEY]
    assert (verdict["rule"], verdict["ran"], verdict["retry"]) == (OUTPUT_RULE, True, False)
    assert "s3cr3t" not in json.dumps(answer)
    # One execution, one record, and it says so.
    assert [one.phase for one in kept.records if one.event == CALL] == ["request", "response"]
    assert (record.status, record.blocked_by, record.reason) == ("mutation_failed", OUTPUT_RULE, reason)
    assert record.leaves() is None
    assert [entry.verdict for entry in record.entries] == ["modified"]


async def test_structured_content_that_a_mutator_took_away_is_missed(log: Path) -> None:
    @mutator(events=[CALL], phase="response")
    def strip(payload: dict[str, Any]) -> dict[str, Any]:
        return without(payload, "structuredContent")

    async with guarded(log, strip) as link:
        await show(link)
        answer = await get(link, content())
    assert answer["isError"] is True
    assert "it has no structuredContent" in answer["content"][0]["text"]


async def test_a_changed_result_that_fits_goes_on(log: Path) -> None:
    async with guarded(log, changing(lambda _: {"total": 2})) as link:
        await show(link)
        assert (await get(link, content()))["structuredContent"] == {"total": 2}


async def test_a_result_that_nothing_changed_is_never_compared(log: Path) -> None:
    @mutator(events=[CALL], phase="response")
    def idle(payload: dict[str, Any]) -> None:
        return None

    async with guarded(log, idle) as link:
        await show(link)
        values: list[dict[str, Any]] = [{"content": []}, content({"total": "x"}), {"structuredContent": None}]
        for value in values:
            assert await get(link, value) == value


@pytest.mark.parametrize("broken", [{"total": "x"}, None])
async def test_what_never_fitted_is_the_servers_and_goes_on(log: Path, broken: Any) -> None:
    async with guarded(log, changing(lambda _: {"total": None})) as link:
        await show(link)
        assert (await get(link, content(broken)))["structuredContent"] == {"total": None}


async def test_a_change_beside_the_structured_content_is_no_reason_to_look_at_it(log: Path) -> None:
    @mutator(events=[CALL], phase="response")
    def text_only(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "content": []}

    async with guarded(log, text_only) as link:
        await show(link)
        assert await get(link, content({"total": "x"})) == {"content": [], "structuredContent": {"total": "x"}}


@pytest.mark.parametrize("more", [{"isError": True}, {"resultType": "input_required", "requestState": "s"}])
async def test_errors_and_what_is_no_final_result_are_not_compared(log: Path, more: dict[str, Any]) -> None:
    async with guarded(log, changing(lambda _: {"total": "x"})) as link:
        await show(link)
        assert (await get(link, content(GOOD, **more)))["structuredContent"] == {"total": "x"}


async def test_an_error_that_a_mutator_turned_into_a_result_is(log: Path) -> None:
    @mutator(events=[CALL], phase="response")
    def hush(payload: dict[str, Any]) -> dict[str, Any]:
        return without(payload, "isError")

    async with guarded(log, hush) as link:
        await show(link)
        assert "_meta" in await get(link, {"content": [], "isError": True})


async def test_a_tool_that_promises_nothing_or_is_not_known_is_not_checked(log: Path) -> None:
    async with guarded(log, changing(lambda _: 1)) as link:
        assert (await get(link, content()))["structuredContent"] == 1
        await show(link, {"name": "t", "inputSchema": {"type": "object"}})
        assert (await get(link, content()))["structuredContent"] == 1


async def test_in_audit_mode_nothing_changes_so_nothing_is_withheld(log: Path) -> None:
    async with guarded(log, changing(lambda _: 1, mode="audit")) as link:
        await show(link)
        assert await get(link, content()) == content()


async def test_the_schema_is_the_one_that_the_client_saw_under_the_name_that_the_client_used(log: Path) -> None:
    @mutator(events=[LIST], phase="response")
    def listing(payload: dict[str, Any]) -> dict[str, Any]:
        renamed = [
            {**one, "name": f"x.{one['name']}", "outputSchema": {"required": ["more"]}} for one in payload["tools"]
        ]
        return {**payload, "tools": renamed}

    @mutator(events=[CALL], phase="request")
    def target(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "name": payload["name"].removeprefix("x.")}

    @mutator(events=[CALL], phase="response")
    def answer(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "structuredContent": {"less": 1}}

    async with guarded(log, listing, target, answer) as link:
        await show(link)
        answered = await get(link, content(), name="x.t")
    # What the server sent did not fit it either, but the server never promised that.
    assert answered["_meta"][VERDICT_KEY]["rule"] == OUTPUT_RULE


async def test_a_schema_that_is_listed_anew_counts_from_then_on(log: Path) -> None:
    async with guarded(log, changing(lambda _: {"total": "x"})) as link:
        await show(link)
        assert (await get(link, content()))["isError"] is True
        await show(link, tool({"type": "object"}))
        assert (await get(link, content()))["structuredContent"] == {"total": "x"}


@ERAS
async def test_an_answer_in_place_of_the_server_must_fit_too_and_the_tool_did_not_run(log: Path, meta: Any) -> None:
    @mutator(events=[CALL], phase="request")
    def cached(payload: dict[str, Any]) -> Answer:
        return Answer({"content": [], **payload["arguments"]})

    async with guarded(log, cached) as link:
        await show(link, meta=meta)
        common = {"_meta": meta} if meta else {}
        params = {"name": "t", "arguments": {"structuredContent": GOOD}, **common}
        good = (await link.call(1, CALL, params))["result"]
        bad = (await link.call(2, CALL, {"name": "t", "arguments": {}, **common}))["result"]
        assert ANSWER_KEY in good["_meta"]
        assert bad["isError"] is True
        assert "The tool did not run." in bad["content"][0]["text"]
        assert bad["_meta"][VERDICT_KEY]["ran"] is False
        assert len(link.seen()) == 1


@pytest.mark.parametrize(
    ("detail", "rule", "reason"), [("none", False, False), ("rule", True, True), ("reason", True, True)]
)
@pytest.mark.parametrize("form", ["result", "error"])
async def test_the_operator_says_how_much_the_client_is_told(
    log: Path, detail: Any, rule: bool, reason: bool, form: Any
) -> None:
    denials = Denials(detail=detail, form=form)
    async with guarded(log, changing(lambda _: 1), denials=denials) as link:
        await show(link)
        await link.send(request("call", CALL, {"name": "t"}, send(result("call", content()))))
        line = (await link.receive()).decode()
    assert ("error" in json.loads(line)) == (form == "error")
    assert (OUTPUT_RULE in line, "does not fit" in line) == (rule, reason)


# Schemas that nobody vouches for

NO_SCHEMAS: dict[str, Any] = {
    "no schema": {"type": 1},
    "a remote dialect in the middle": {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}},
    "an odd dialect": {"$schema": ["x"]},
    "one that is too large": {"description": "x" * 300_000, "type": "string"},
    "one that never ends": {"$ref": "#"},
}


@pytest.mark.parametrize("case", NO_SCHEMAS)
async def test_what_cannot_be_checked_goes_on(log: Path, case: str) -> None:
    async with guarded(log, changing(lambda _: {"total": "x"})) as link:
        await show(link, tool(NO_SCHEMAS[case]))
        assert (await get(link, content()))["structuredContent"] == {"total": "x"}


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/schema.json", "file:///etc/hosts", "#/$defs/none"])
async def test_no_reference_is_followed_out_of_the_document(log: Path, reference: str) -> None:
    schema = {"anyOf": [{"required": ["total"]}, {"$ref": reference}]}
    async with guarded(log, changing(lambda _: {})) as link:
        await show(link, tool(schema))
        # The server's result fits without it. The changed one does not, and clients cannot resolve it either.
        assert (await get(link, content()))["isError"] is True
        await show(link, tool({"$ref": reference}))
        assert (await get(link, content()))["structuredContent"] == {}


def bomb(levels: int = 40) -> dict[str, Any]:
    """Return a schema in which each level checks the next one twice."""
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": "object"}}}


COSTLY: dict[str, tuple[Any, Any]] = {
    "a bomb": (bomb(), {"a": 1}),
    "a pattern that backtracks": ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 50 + "!"}),
    "a pattern of a key": ({"patternProperties": {"^(a|a)*$": {}}}, {"a" * 50 + "!": 1}),
    "a pattern of another key": (
        {"additionalProperties": False, "patternProperties": {"^(a|a)*$": {}}},
        {"a" * 50 + "!": 1},
    ),
    "many unique items": (
        {"properties": {"a": {"uniqueItems": True}}},
        {"a": [{"n": number} for number in range(50_000)]},
    ),
}


@pytest.mark.parametrize("case", COSTLY)
async def test_a_schema_cannot_hold_the_gateway(log: Path, case: str) -> None:
    schema, value = COSTLY[case]
    async with guarded(log, changing(lambda _: value)) as link:
        await show(link, tool(schema))
        assert (await get(link, content()))["structuredContent"] == value


# Listings


def listing_with(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Interceptor[..., Any]:
    @mutator(events=[LIST], phase="response", name="change")
    def handler(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "tools": [change(one) for one in payload["tools"]]}

    return handler


OBJECT: dict[str, Any] = {"type": "object"}
FULL: dict[str, Any] = {"type": "object", "properties": {"a": {}}}
LISTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "taken away": ({"name": "t"}, OBJECT),
    "no object": ({"name": "t", "inputSchema": "redacted"}, OBJECT),
    "null": ({"name": "t", "inputSchema": None}, OBJECT),
    "of another type": ({"name": "t", "inputSchema": {"type": "string"}}, OBJECT),
    "of no type": ({"name": "t", "inputSchema": {"properties": {"a": {}}}}, FULL),
    "another one": ({"name": "t", "inputSchema": {"type": "object", "x": 1}}, {"type": "object", "x": 1}),
    "renamed": ({"name": "other"}, OBJECT),
}


@ERAS
@pytest.mark.parametrize("case", LISTINGS)
async def test_an_input_schema_that_a_mutator_broke_is_any_object(log: Path, meta: Any, case: str) -> None:
    changed, expected = LISTINGS[case]
    kept = Kept()
    async with guarded(log, listing_with(lambda _: changed), observers=[kept]) as link:
        answer = await show(link, {"name": "t", "inputSchema": FULL}, meta=meta)
    assert answer["result"]["tools"][0]["inputSchema"] == expected
    assert kept.records[-1].leaves() == answer["result"]


@pytest.mark.parametrize("bare", [{"name": "t"}, {"name": "t", "inputSchema": None}, {"name": "t", "inputSchema": {}}])
async def test_what_the_server_itself_lists_without_one_stays_unless_the_operator_wants_it(
    log: Path, bare: dict[str, Any]
) -> None:
    titled = listing_with(lambda one: {**one, "title": "T"})

    @validator(events=[LIST], phase="response")
    def look(payload: dict[str, Any]) -> None:
        return None

    for interceptors in ([titled], [look], []):
        title = {"title": "T"} if interceptors == [titled] else {}
        async with guarded(log, *interceptors) as link:
            assert (await show(link, bare))["result"]["tools"] == [{**bare, **title}]
        async with guarded(log, *interceptors, coerce_input_schemas=True) as link:
            shown = await show(link, bare, {"name": "u", "inputSchema": FULL})
            assert [one["inputSchema"] for one in shown["result"]["tools"]] == [OBJECT, FULL]


async def test_a_listing_that_needs_nothing_passes_byte_for_byte_also_when_all_get_schemas(log: Path) -> None:
    line = b'{"id": "list", "jsonrpc":"2.0","result":{"tools":[{"name":"a","inputSchema":{"type":"object"} }]}}'
    async with guarded(log, coerce_input_schemas=True) as link:
        await link.send(request("list", LIST, None, send(line)))
        assert await link.receive() == line
