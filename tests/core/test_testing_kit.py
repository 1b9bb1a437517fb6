"""The testing kit for plugin authors: it builds what a host builds, and its check finds what it promises to find."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from midspan_sdk import (
    Ask,
    ChainEntry,
    Command,
    DecisionRecord,
    DuplicateInterceptorError,
    Exchange,
    InterceptorOverrides,
    InvalidInvocationError,
    InvocationContext,
    Problem,
    State,
    UnmetNeedError,
    deny,
    hookimpl,
    mutator,
    sink,
    validator,
)
from midspan_sdk.testing import chain_with, check_plugin, interceptors_from, run

CALL: dict[str, Any] = {"name": "shell", "arguments": {"command": "rm -rf /"}}


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    value: int = 1


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    word: str = "rm -rf"
    inner: Inner = Inner()


class Keeps:
    name = "keeps"
    durable = True

    def __init__(self) -> None:
        self.records: list[DecisionRecord] = []

    async def observe(self, record: DecisionRecord) -> None:
        self.records.append(record)


class Guard:
    """A plugin with every hook, that conforms."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.observer = Keeps()

    @hookimpl
    def midspan_config(self) -> type[Settings]:
        return Settings

    @hookimpl
    def midspan_interceptors(self, config: Settings, instance: str) -> Sequence[Any]:
        @validator(events=["tools/call"], phase="request")
        def no_rm(payload: dict[str, Any], config: Settings, lifespan: object) -> Any:
            return deny(f"{instance}, {lifespan}") if config.word in str(payload) else None

        @mutator(events=["*"], phase="both", name="guard.named")
        def touch(payload: dict[str, Any]) -> dict[str, Any]:
            payload["seen"] = True
            return payload

        @validator(events=["tools/call"], phase="response")
        def look(request: dict[str, Any], state: State) -> None:
            assert request["name"]

        @sink(events=["tools/*"], phase="both")
        def count(session_state: State) -> None:
            session_state["n"] = session_state.get("n", 0) + 1

        @validator(events=["*"], phase="both")
        async def asks(ask: Ask) -> None:
            assert await ask("Sure?", schema={"type": "object", "properties": {}}) is None

        @validator(events=["*"], phase="both")
        def tools(tools: Any) -> None:
            raise AssertionError("cannot be run without a host")

        return [no_rm, touch, look, count, asks, tools]

    @hookimpl
    def midspan_lifespan(self, instance: str) -> Any:
        @asynccontextmanager
        async def lifespan() -> AsyncGenerator[str]:
            self.entered.append(instance)
            yield "open"

        return lifespan()

    @hookimpl
    def midspan_observers(self) -> Sequence[Any]:
        return [self.observer]

    @hookimpl
    def midspan_resolvers(self) -> Sequence[Any]:
        return []

    @hookimpl
    def midspan_checks(self, entries: Sequence[ChainEntry]) -> Sequence[Problem]:
        assert entries
        return [Problem(message="only a hint", severity="warning")]

    @hookimpl
    def midspan_commands(self) -> Sequence[Command]:
        return [Command(name="hello", help="Say hello.", run=lambda arguments: 0)]


# Building


def test_interceptors_get_their_names_config_and_lifespan_as_from_a_host() -> None:
    built = interceptors_from(Guard(), config={"word": "x"}, instance="strict", lifespan="life")
    assert [one.name for one in built] == [
        "strict.no_rm",
        "guard.named",
        "strict.look",
        "strict.count",
        "strict.asks",
        "strict.tools",
    ]
    assert {one.state_group for one in built} == {"strict"}
    assert {(repr(one.bindings.config), one.bindings.lifespan) for one in built} == {(repr(Settings(word="x")), "life")}
    assert all(one.descriptor.config_schema == Settings.model_json_schema() for one in built)


@pytest.mark.parametrize("config", [None, {}, Settings()])
def test_a_config_may_be_a_table_or_the_model(config: Any) -> None:
    assert interceptors_from(Guard(), config=config)[0].bindings.config == Settings()


def test_a_config_that_does_not_fit_is_refused_by_the_model() -> None:
    with pytest.raises(ValidationError):
        interceptors_from(Guard(), config={"wrod": "x"})


class Plain:
    @hookimpl
    def midspan_interceptors(self) -> Sequence[Any]:
        return [validator(events=["tools/call"], phase="request", name="it")(lambda payload: "rm" not in str(payload))]  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]  # untyped on purpose


def test_a_plugin_without_a_config_model_takes_no_config() -> None:
    assert [one.name for one in interceptors_from(Plain())] == ["it"]
    with pytest.raises(AssertionError, match="Plain has no config model, so its config must be empty"):
        interceptors_from(Plain(), config={"a": 1})


def test_a_plugin_without_interceptors_has_none() -> None:
    class Observes:
        @hookimpl
        def midspan_observers(self) -> Sequence[Any]:
            return [Keeps()]

    assert interceptors_from(Observes()) == []


def test_two_interceptors_of_one_name_are_refused() -> None:
    class Twice:
        @hookimpl
        def midspan_interceptors(self) -> Sequence[Any]:
            return [*Plain().midspan_interceptors(), *Plain().midspan_interceptors()]

    with pytest.raises(DuplicateInterceptorError):
        interceptors_from(Twice())


# Running


def test_run_sends_one_message_through_a_chain() -> None:
    entries = [one for one in interceptors_from(Guard(), lifespan="open") if not one.needs]
    result = run(*entries, event="tools/call", phase="request", payload=CALL)
    assert result.status == "validation_failed"
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "test, open"
    passed = run(*entries, event="tools/call", phase="request", payload={"name": "ls"})
    assert passed.final_payload == {"name": "ls", "seen": True}


def test_run_takes_what_execute_takes() -> None:
    seen: list[Any] = []

    @validator(events=["*"], phase="both", name="it")
    def look(config: Settings | None, context: InvocationContext, request: Any) -> None:
        seen.append((context.session_id, request))

    exchange = Exchange()
    exchange.keep_request({"n": 1})
    keeps = Keeps()
    result = run(
        look,
        validator(events=["*"], phase="both", name="other")(lambda: False),
        event="x",
        phase="response",
        payload={},
        direction="sending",
        interceptors=["it"],
        context=InvocationContext(session_id="s"),
        exchange=exchange,
        overrides={"it": InterceptorOverrides(timeout_ms=50)},
        observers=[keeps],
    )
    assert result.status == "success"
    assert seen == [("s", {"n": 1})]
    assert keeps.records[0].direction == "sending"


@pytest.mark.anyio
async def test_a_chain_of_a_plugin_has_its_interceptors_and_observers() -> None:
    guard = Guard()
    with pytest.raises(UnmetNeedError):
        chain_with(guard)

    class Observed(Plain):
        @hookimpl
        def midspan_observers(self) -> Sequence[Any]:
            return [guard.observer]

    async with chain_with(Observed(), overrides={"it": {"mode": "audit"}}) as chain:
        result = await chain.execute(event="tools/call", phase="request", payload=CALL)
    assert result.status == "success"
    assert len(guard.observer.records) == 1
    async with chain_with(Observed(), observers=[]) as chain:
        await chain.execute(event="tools/call", phase="request", payload=CALL)
    assert len(guard.observer.records) == 1


# Checking


def test_a_plugin_that_conforms_passes_and_its_lifespan_was_entered() -> None:
    guard = Guard()
    check_plugin(guard, instance="strict")
    assert guard.entered == ["strict"]
    check_plugin(Plain())


def findings_of(plugin: object, **options: Any) -> list[str]:
    with pytest.raises(AssertionError) as caught:
        check_plugin(plugin, **options)
    headline, *findings = str(caught.value).splitlines()
    assert headline == f"{type(plugin).__name__} does not conform:"
    return [finding.removeprefix("- ") for finding in findings]


HOOKS = (
    "midspan_checks, midspan_commands, midspan_config, midspan_interceptors, midspan_lifespan, midspan_observers, "
    "midspan_resolvers"
)


class UnknownHook:
    @hookimpl
    def midspan_interceptor(self) -> None: ...


class UnmarkedHook:
    def midspan_interceptors(self) -> None: ...


class AsyncHook:
    @hookimpl
    async def midspan_interceptors(self) -> None: ...


class GeneratorHook:
    @hookimpl
    def midspan_observers(self) -> Any:
        yield Keeps()


class UnknownArgument:
    @hookimpl
    def midspan_interceptors(self, settings: object) -> Sequence[Any]:
        return []


class Wrapper:
    @hookimpl(hookwrapper=True)
    def midspan_interceptors(self) -> Any:
        yield


@pytest.mark.parametrize(
    ("plugin", "finding"),
    [
        (UnknownHook(), f"hook midspan_interceptor: unknown; the hooks are {HOOKS}"),
        (UnmarkedHook(), "hook midspan_interceptors: is not marked with @hookimpl, so that no host calls it"),
        (
            AsyncHook(),
            "hook midspan_interceptors: must be a plain function; put async work into the interceptors it returns",
        ),
        (
            GeneratorHook(),
            "hook midspan_observers: must be a plain function; put async work into the interceptors it returns",
        ),
        (UnknownArgument(), "hook midspan_interceptors: takes 'settings'; it may take config, instance"),
        (Wrapper(), "hook midspan_interceptors: must not be a wrapper; each plugin contributes for itself"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_hook_that_a_host_would_refuse_is_found(plugin: object, finding: str) -> None:
    assert finding in findings_of(plugin)
    with pytest.raises(AssertionError) as caught:
        interceptors_from(plugin)
    assert str(caught.value) in findings_of(plugin)


def contributing(*contributions: object) -> object:
    class Contributes:
        @hookimpl
        def midspan_interceptors(self) -> Sequence[Any]:
            return contributions

    return Contributes()


def test_a_contribution_that_is_no_interceptor_is_found() -> None:
    (finding,) = findings_of(contributing(5))
    assert finding.startswith("interceptor 'int': is no interceptor and has no decorated methods")


def test_a_config_model_that_takes_unknown_keys_is_found_at_every_depth() -> None:
    class LooseInner(BaseModel):
        value: int = 1

    class Loose(BaseModel):
        inner: list[LooseInner] = []

    class Configured:
        @hookimpl
        def midspan_config(self) -> type[Loose]:
            return Loose

    assert findings_of(Configured()) == [
        f"config model {name}: accepts unknown keys; give it model_config = ConfigDict(extra='forbid')"
        for name in ("Loose", "LooseInner")
    ]


def test_a_config_that_does_not_fit_is_a_finding() -> None:
    (finding,) = findings_of(Guard(), config={"wrod": "x"})
    assert finding == "the config does not fit Settings: wrod: Extra inputs are not permitted"


def test_interceptors_that_differ_from_call_to_call_are_found() -> None:
    class Counts:
        calls = 0

        @hookimpl
        def midspan_interceptors(self) -> Sequence[Any]:
            self.calls += 1
            return [validator(events=["x"], phase="request", name=f"it{self.calls}")(lambda: None)]

    assert findings_of(Counts()) == [
        "midspan_interceptors: called twice it gives different interceptors; it must be pure"
    ]


def test_a_handler_that_crashes_on_an_ordinary_message_is_found() -> None:
    @validator(events=["prompts/get"], phase="request")
    def needs_a_key(payload: dict[str, Any]) -> None:
        payload["arguments"]["city"]

    findings = findings_of(contributing(needs_a_key))
    assert (
        "interceptor 'test.needs_a_key' on an ordinary prompts/get request: the validator raised KeyError" in findings
    )
    assert "interceptor 'test.needs_a_key' on an odd prompts/get request: the validator raised TypeError" in findings


def test_a_handler_may_refuse_an_odd_message_and_not_an_ordinary_one() -> None:
    @validator(events=["tools/call"], phase="request")
    def strict(payload: dict[str, Any]) -> None:
        if not isinstance(payload.get("name"), str):
            raise InvalidInvocationError("strict", "has no name")

    @validator(events=["tools/call"], phase="request")
    def refuses(payload: dict[str, Any]) -> None:
        raise InvalidInvocationError("refuses", "always")

    check_plugin(contributing(strict))
    (finding,) = findings_of(contributing(refuses))
    assert finding == "interceptor 'test.refuses' on an ordinary tools/call request: always"


def test_a_mutator_that_edits_and_forgets_to_return_is_found() -> None:
    @mutator(events=["tools/list"], phase="response")
    def forgets(payload: dict[str, Any]) -> None:
        payload["x"] = 1

    finding = "interceptor 'test.forgets' on an ordinary tools/list response: the mutator returned the wrong type"
    assert finding in findings_of(contributing(forgets))


@pytest.mark.parametrize("decorate", [validator, sink])
def test_a_validator_or_sink_that_edits_its_payload_is_found(decorate: Any) -> None:
    async def edits(payload: dict[str, Any], *, event: str) -> None:
        payload["x"] = event

    plugin = contributing(decorate(events=["roots/list"], phase="response", name="it")(edits))
    assert "interceptor 'it' on an ordinary roots/list response: edits the payload it was given" in findings_of(plugin)


def test_a_sink_that_fails_is_found() -> None:
    @sink(events=["tools/call"], phase="request")
    def fails(payload: dict[str, Any]) -> None:
        payload["arguments"]["missing"]

    assert (
        "interceptor 'test.fails' on an ordinary tools/call request: the sink failed; the log says why"
        in findings_of(contributing(fails))
    )


def test_an_author_s_own_messages_are_run_too() -> None:
    @validator(events=["acme/compute"], phase="request")
    def check(payload: dict[str, Any]) -> bool:
        return payload["n"] > 0

    plugin = contributing(check)
    check_plugin(plugin, payloads=[("acme/compute", "request", {"n": 1})])
    assert findings_of(plugin, payloads=[("acme/compute", "request", {})]) == [
        "interceptor 'test.check' on an ordinary acme/compute request: the validator raised KeyError"
    ]


def test_contributions_of_the_wrong_shape_are_found() -> None:
    class Wrong:
        @hookimpl
        def midspan_observers(self) -> Sequence[Any]:
            return [object()]

        @hookimpl
        def midspan_resolvers(self) -> Sequence[Any]:
            return [object()]

        @hookimpl
        def midspan_commands(self) -> Sequence[Any]:
            return ["hello"]

        @hookimpl
        def midspan_checks(self) -> Sequence[Any]:
            return ["bad", Problem(message="cannot block in audit mode")]

    assert findings_of(Wrong()) == [
        "midspan_observers: gives something that has no name, durable and async observe(record)",
        "midspan_resolvers: gives something that has no async resolve(context, event)",
        "midspan_commands: gives something that is no Command",
        "midspan_checks: gives something that is no Problem",
        "midspan_checks: finds an error in this config: cannot block in audit mode",
    ]


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("import mcp_types", "importing acme_heavy imports mcp_types; import it where it is first needed"),
        ("raise RuntimeError('not here')", "importing acme_heavy fails: RuntimeError: not here"),
    ],
)
def test_what_importing_the_plugin_costs_is_found(
    source: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_heavy.py").write_text(f"import sys\nif 'pytest' not in sys.modules:\n    {source}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    import acme_heavy  # pyright: ignore[reportMissingImports]  # written above

    try:
        with pytest.raises(AssertionError) as caught:
            check_plugin(acme_heavy)
        assert str(caught.value) == f"acme_heavy does not conform:\n- {finding}"
    finally:
        del sys.modules["acme_heavy"]
