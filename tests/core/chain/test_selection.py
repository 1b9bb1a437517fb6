"""Which entries a message reaches: names, hooks, errors, notifications; and the config it brings along."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from midspan_sdk import (
    Bindings,
    Chain,
    ChainError,
    DuplicateInterceptorError,
    Exchange,
    FailedResult,
    InvocationContext,
    deny,
    mutator,
    validator,
)
from midspan_sdk.testing import run
from midspan_sdk.wire import Phase

CALL: dict[str, Any] = {"name": "echo"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


def logging(name: str, log: list[str], *, events: tuple[str, ...] = ("*",), phase: Any = "both", **options: Any) -> Any:
    def handler() -> None:
        log.append(name)

    return validator(events=events, phase=phase, name=name, **options)(handler)


# Names


@pytest.mark.parametrize(
    ("names", "ran"),
    [(None, ["a", "b", "c"]), ([], []), (["b"], ["b"]), (["c", "a", "c"], ["a", "c"]), (("a",), ["a"])],
)
def test_a_filter_of_names_selects_entries(names: Any, ran: list[str]) -> None:
    log: list[str] = []
    result = call(*(logging(name, log) for name in "abc"), interceptors=names)
    assert log == ran
    assert result.status == "success"
    assert [one.interceptor for one in result.results] == ran


def test_a_filter_does_not_change_what_a_message_without_one_meets() -> None:
    log: list[str] = []
    denies = validator(events=["*"], phase="both", name="denies")(lambda: deny("no"))
    assert call(denies, logging("a", log), interceptors=["a"]).status == "success"
    assert call(denies, logging("a", log)).status == "validation_failed"


def test_a_name_of_an_entry_that_does_not_match_is_no_error() -> None:
    log: list[str] = []
    assert call(logging("a", log, events=("tools/list",)), interceptors=["a"]).status == "success"
    assert log == []


@pytest.mark.anyio
async def test_an_unknown_name_is_an_error() -> None:
    chain = Chain()
    chain.add(logging("a", []))
    with pytest.raises(ChainError) as caught:
        await chain.execute(event="tools/call", phase="request", payload=CALL, interceptors=["a", "x"])
    assert str(caught.value) == "no interceptor named 'x' in this chain"


def test_two_entries_of_one_name_are_refused_and_nothing_is_added() -> None:
    chain = Chain()
    with pytest.raises(DuplicateInterceptorError) as caught:
        chain.add(logging("a", []), logging("b", []), logging("a", []))
    assert str(caught.value) == "interceptor 'a': name: is already in the chain"
    assert chain.entries == ()
    chain.add(logging("a", []))
    with pytest.raises(DuplicateInterceptorError):
        chain.add(logging("b", []), logging("a", []))
    assert [entry.name for entry in chain.entries] == ["a"]


# Hooks


@pytest.mark.parametrize(
    ("pattern", "event", "runs"),
    [
        ("*", "tools/call", True),
        ("*", "acme/custom", True),
        ("*", "notifications/progress", True),
        ("*", "", True),
        ("tools/*", "tools/call", True),
        ("tools/*", "toolsets/call", False),
        ("resources/*", "resources/templates/list", True),
        ("*/list", "resources/templates/list", True),
        ("*/list", "tools/list", True),
        ("*/list", "tools/listing", False),
        ("resources/*/list", "resources/list", False),
        ("resources/*list", "resources/list", True),
        ("tools/call", "tools/call", True),
        ("tools/call", "tools/calls", False),
        ("tools.call", "tools/call", False),
        ("tools/cal?", "tools/call", False),
        ("tools/[c]all", "tools/call", False),
        ("*", "with\nnewline", True),
        ("Tools/call", "tools/call", False),
    ],
)
def test_a_star_stands_for_anything_and_nothing_else_is_special(pattern: str, event: str, runs: bool) -> None:
    log: list[str] = []
    assert run(logging("a", log, events=(pattern,)), event=event, phase="request", payload={}).status == "success"
    assert bool(log) is runs


@pytest.mark.parametrize("event", ["initialize", "server/discover"])
def test_what_sets_a_connection_up_reaches_only_those_that_name_it(event: str) -> None:
    log: list[str] = []
    entries = [
        logging("all", log),
        logging("glob", log, events=(event[:4] + "*",)),
        logging("named", log, events=("tools/call", event)),
    ]
    run(*entries, event=event, phase="response", payload={})
    assert log == ["named"]


@pytest.mark.parametrize("phase", ["request", "response"])
def test_a_hook_takes_its_own_phase_only(phase: Phase) -> None:
    log: list[str] = []
    run(logging("in", log, phase="request"), logging("out", log, phase="response"), event="x", phase=phase, payload={})
    assert log == [{"request": "in", "response": "out"}[phase]]


def test_a_notification_is_an_event_with_a_request_phase() -> None:
    denies = validator(events=["notifications/message"], phase="request", name="it")(lambda: deny("no"))
    assert run(denies, event="notifications/message", phase="request", payload={}).status == "validation_failed"


@pytest.mark.parametrize("event", ["notifications/initialized", "notifications/cancelled"])
@pytest.mark.anyio
async def test_what_keeps_a_connection_working_is_never_intercepted(event: str) -> None:
    records: list[Any] = []

    class Records:
        name = "records"
        durable = True

        async def observe(self, record: object) -> None:
            records.append(record)

    chain = Chain(observers=[Records()])
    chain.add(validator(events=["*", event], phase="both", name="it")(lambda: deny("no")))
    assert not chain.concerns(event, "request")
    assert chain.plan(event, "request") == ()
    payload: dict[str, Any] = {"reason": "user"}
    result = await chain.execute(event=event, phase="request", payload=payload)
    assert result.status == "success"
    assert result.final_payload is payload
    assert records == []


# Errors

ERROR: dict[str, Any] = {"error": {"code": -32000, "message": "disk /srv is full", "data": {"path": "/srv"}}}


def test_an_error_reaches_only_those_that_ask_for_errors() -> None:
    log: list[str] = []
    entries = [logging("plain", log), logging("errors", log, errors=True)]
    run(*entries, event="tools/call", phase="response", payload=ERROR, error=True)
    assert log == ["errors"]
    log.clear()
    run(*entries, event="tools/call", phase="response", payload={}, error=False)
    assert log == ["plain", "errors"]


def test_an_interceptor_of_errors_can_block_them_and_change_message_and_data() -> None:
    @mutator(events=["*"], phase="response", errors=True)
    def redact(payload: dict[str, Any]) -> dict[str, Any]:
        return {"error": {"code": payload["error"]["code"], "message": "disk full"}}

    result = run(redact, event="tools/call", phase="response", payload=ERROR, error=True)
    assert result.final_payload == {"error": {"code": -32000, "message": "disk full"}}
    denies = validator(events=["*"], phase="response", errors=True, name="it")(lambda: deny("no"))
    assert run(denies, event="x", phase="response", payload=ERROR, error=True).status == "validation_failed"


def test_a_chain_knows_whether_a_message_concerns_it() -> None:
    chain = Chain()
    assert not chain.concerns("tools/call", "request")
    chain.add(logging("a", [], events=("tools/call",), phase="response"))
    assert chain.concerns("tools/call", "response")
    assert not chain.concerns("tools/call", "request")
    assert not chain.concerns("tools/call", "response", error=True)


def test_a_message_that_nothing_matches_passes_as_the_object_it_is() -> None:
    payload: dict[str, Any] = {"anything": [1, 1.0, True, None]}
    result = run(logging("a", [], events=("other",)), event="tools/call", phase="request", payload=payload)
    assert (result.status, result.results, result.modified) == ("success", [], False)
    assert result.final_payload is payload


# Config


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: int = 1


def configured(seen: list[Any], name: str = "a") -> Any:
    def handler(config: Settings) -> None:
        seen.append(config)

    handler.__annotations__["config"] = Settings
    interceptor = validator(events=["*"], phase="both", name=name)(handler)
    return interceptor.bound(bindings=Bindings(Settings(limit=1)))


def test_a_config_of_the_execution_replaces_the_entry_s_own() -> None:
    seen: list[Any] = []
    call(configured(seen), configured(seen, "b"), config={"a": {"limit": 9}})
    assert seen == [Settings(limit=9), Settings(limit=1)]


@pytest.mark.parametrize("given", [{"limit": "many"}, {"limits": 3}, {"limit": 1, "secret-key": 2}, 5, []], ids=str)
def test_a_config_that_does_not_fit_fails_the_entry_before_it_runs(given: Any) -> None:
    seen: list[Any] = []
    result = call(configured(seen), config={"a": given})
    assert seen == []
    assert result.status == "validation_failed"
    (failed,) = result.results
    assert isinstance(failed, FailedResult)
    assert failed.error["code"] == -32602
    assert failed.error["data"]["reason"].startswith("the config does not fit: ")
    assert "many" not in str(failed.error)
    assert call(configured(seen), config={"a": given}, overrides={"a": {"fail_open": True}}).status == "success"


def takes_payload(payload: dict[str, Any]) -> None: ...
def takes_nothing() -> None: ...
async def takes_context(context: InvocationContext) -> None: ...


@pytest.mark.parametrize("handler", [takes_payload, takes_nothing, takes_context])
def test_a_config_for_an_entry_that_has_none_fails_it(handler: Any) -> None:
    result = call(validator(events=["*"], phase="both", name="a")(handler), config={"a": {"limit": 1}})
    (failed,) = result.results
    assert isinstance(failed, FailedResult)
    assert failed.error == {
        "code": -32602,
        "message": "Invalid interceptor invocation",
        "data": {"interceptor": "a", "reason": "takes no config"},
    }


def test_a_config_is_checked_although_the_handler_does_not_look_at_it() -> None:
    entry = validator(events=["*"], phase="both", name="a")(takes_nothing).bound(config_model=Settings)
    assert call(entry, config={"a": {"limit": 2}}).status == "success"
    assert call(entry, config={"a": {"limit": "x"}}).status == "validation_failed"


@pytest.mark.anyio
async def test_a_config_for_nobody_is_an_error() -> None:
    chain = Chain()
    chain.add(logging("a", []))
    with pytest.raises(ChainError) as caught:
        await chain.execute(event="tools/call", phase="request", payload=CALL, config={"b": {}})
    assert str(caught.value) == "config names 'b', which is not in this chain"


@pytest.mark.anyio
async def test_an_exchange_of_a_message_that_nothing_matches_keeps_its_request() -> None:
    seen: list[Any] = []

    @validator(events=["tools/call"], phase="response")
    def look(request: dict[str, Any]) -> None:
        seen.append(request)

    chain, exchange = Chain(), Exchange()
    chain.add(look)
    await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
    await chain.execute(event="tools/call", phase="response", payload={}, exchange=exchange)
    assert seen == [CALL]
