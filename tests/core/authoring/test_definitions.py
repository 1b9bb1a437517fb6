"""What the decorators refuse, and the sentence they say it with."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from midspan_sdk import DefinitionError, mutator, sink, validator

NEEDS: tuple[Literal["session", "tools", "ask", "store"], ...] = ("session", "tools", "ask", "store")


def check(payload: dict[str, Any]) -> None:
    """Look at every call.

    More text.
    """


async def acheck(payload: dict[str, Any]) -> None: ...


def yields(payload: dict[str, Any]) -> Any:
    yield payload


async def ayields(payload: dict[str, Any]) -> Any:
    yield payload


def refused(decorate: Any, handler: Any = check, **options: Any) -> str:
    given: dict[str, Any] = {"events": ["tools/call"], "phase": "request", "name": "it", **options}
    with pytest.raises(DefinitionError) as caught:
        decorate(**given)(handler)
    return str(caught.value)


@pytest.mark.parametrize("decorate", [validator, mutator, sink])
def test_an_interceptor_is_called_what_its_decorator_is(decorate: Any) -> None:
    made = decorate(events=["tools/call"], phase="request", name="it")(lambda: None)
    assert made.descriptor.noun == decorate.__name__


@pytest.mark.parametrize("decorate", [validator, mutator, sink])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": ""}, "interceptor '': name: must not be empty"),
        ({"name": "a\nb"}, "interceptor 'a\\nb': name: contains the control character '\\n'"),
        ({"name": "a\x9fb"}, "interceptor 'a\\x9fb': name: contains the control character '\\x9f'"),
        ({"name": "a\ud800"}, "interceptor 'a\\ud800': name: contains the control character '\\ud800'"),
        ({"events": "tools/call"}, "interceptor 'it': events: must be a list, for example ['tools/call']"),
        ({"events": []}, "interceptor 'it': events: needs at least one event"),
        ({"events": [""]}, "interceptor 'it': events: must not be empty"),
        ({"events": ["a\tb"]}, "interceptor 'it': events: contains the control character '\\t'"),
        ({"phase": "requests"}, "interceptor 'it': phase: must be 'request', 'response' or 'both', not 'requests'"),
        ({"timeout": 0}, "interceptor 'it': timeout: must be a positive number of seconds, not 0"),
        ({"timeout": -1.5}, "interceptor 'it': timeout: must be a positive number of seconds, not -1.5"),
        ({"timeout": float("nan")}, "interceptor 'it': timeout: must be a positive number of seconds, not nan"),
        ({"timeout": float("inf")}, "interceptor 'it': timeout: must be a positive number of seconds, not inf"),
        ({"needs": ["network"]}, "interceptor 'it': needs: unknown need 'network'; known: session, tools, ask, store"),
        ({"errors": True}, "interceptor 'it': errors: errors are seen in the response phase; hook that"),
        ({"compat": {"max_protocol": "2026-07-28"}}, "interceptor 'it': compat: needs 'min_protocol'"),
        (
            {"compat": {"min_protocol": "2026-07-28", "max": "x"}},
            "interceptor 'it': compat: unknown key 'max'; known: min_protocol, max_protocol",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_option_is_refused_in_one_sentence(decorate: Any, options: dict[str, Any], sentence: str) -> None:
    assert refused(decorate, **options) == sentence


@pytest.mark.parametrize(
    ("hint", "sentence"),
    [
        (2**31, "interceptor 'it': priority_hint: 2147483648 is outside int32"),
        (-(2**31) - 1, "interceptor 'it': priority_hint: -2147483649 is outside int32"),
        ({"request": 2**31}, "interceptor 'it': priority_hint: 2147483648 is outside int32"),
        ({"requests": 5}, "interceptor 'it': priority_hint: unknown key 'requests'; known: request, response"),
    ],
)
def test_a_priority_is_an_int32_or_one_for_each_phase(hint: Any, sentence: str) -> None:
    assert refused(mutator, priority_hint=hint) == sentence


@pytest.mark.parametrize("hint", ["5", 5.0, True])
def test_a_priority_is_an_integer(hint: Any) -> None:
    assert refused(mutator, priority_hint=hint).startswith("interceptor 'it': priority_hint: ")


def test_the_limits_of_int32_are_priorities() -> None:
    for hint in (-(2**31), 2**31 - 1):
        made = mutator(events=["tools/call"], phase="request", priority_hint=hint)(check)
        assert made.descriptor.priority("request") == hint


def test_the_mode_is_active_or_audit() -> None:
    assert refused(validator, mode="observe") == "interceptor 'it': mode: Input should be 'active' or 'audit'"


@pytest.mark.parametrize("option", ["mode", "fail_open", "priority_hint"])
def test_a_sink_has_no_policy(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        sink(events=["*"], phase="request", **{option: 1})  # pyright: ignore[reportCallIssue, reportArgumentType]  # the case


def test_a_sink_sees_what_leaves_or_what_arrived() -> None:
    sentence = "interceptor 'it': sees: must be 'leaves' or 'arrived', not 'everything'"
    assert refused(sink, sees="everything") == sentence


def test_needs_may_be_any_iterable() -> None:
    made = validator(events=["*"], phase="request", needs=(need for need in NEEDS if need != "ask"))(check)
    assert made.needs == {"tools", "session", "store"}


def test_a_validator_has_no_priority() -> None:
    with pytest.raises(TypeError, match="priority_hint"):
        validator(events=["*"], phase="request", priority_hint=1)  # pyright: ignore[reportCallIssue]  # the case


@pytest.mark.parametrize("handler", [yields, ayields])
def test_a_generator_is_no_handler(handler: Any) -> None:
    sentence = "interceptor 'it': handler: is a generator; return one value instead of yielding"
    assert refused(validator, handler) == sentence


def test_only_a_plain_def_can_be_blocking() -> None:
    sentence = "interceptor 'it': blocking: only a plain `def` can be blocking; this one is async"
    assert refused(validator, acheck, blocking=True) == sentence


def test_a_store_and_a_question_are_asynchronous() -> None:
    def stores(store: object) -> None: ...
    def asks(ask: object) -> None: ...

    sentence = "interceptor 'it': {}: is asynchronous; make the handler an `async def`"
    assert refused(validator, stores) == sentence.format("store")
    assert refused(validator, asks) == sentence.format("ask")
    assert refused(validator, asks, blocking=True) == sentence.format("ask")


def test_something_that_is_no_function_is_refused() -> None:
    assert refused(validator, 5).startswith("interceptor 'it': its signature cannot be read: ")


@pytest.mark.parametrize("phase", ["response", "both"])
def test_params_belong_to_the_request_phase(phase: str) -> None:
    def typed(params: Any) -> None: ...

    typed.__annotations__["params"] = BaseModel
    sentence = "interceptor 'it': params: is the typed payload of the request phase only"
    assert refused(validator, typed, phase=phase) == sentence


@pytest.mark.parametrize("phase", ["request", "both"])
def test_result_belongs_to_the_response_phase(phase: str) -> None:
    def typed(result: Any) -> None: ...

    typed.__annotations__["result"] = BaseModel
    sentence = "interceptor 'it': result: is the typed payload of the response phase only"
    assert refused(validator, typed, phase=phase) == sentence


def test_name_and_description_come_from_the_function_unless_given() -> None:
    made = validator(events=["tools/call"], phase="request")(check)
    assert made.descriptor.to_wire() == {
        "name": "check",
        "description": "Look at every call.",
        "type": "validation",
        "hooks": [{"events": ["tools/call"], "phase": "request"}],
    }
    given = mutator(
        events=["tools/call", "prompts/*"],
        phase="both",
        name="x/y.z",
        description="other",
        version="1.2",
        mode="audit",
        fail_open=True,
        priority_hint={"response": 4},
        compat={"min_protocol": "2025-06-18"},
    )(check)
    assert given.descriptor.to_wire() == {
        "name": "x/y.z",
        "version": "1.2",
        "description": "other",
        "type": "mutation",
        "hooks": [
            {"events": ["tools/call", "prompts/*"], "phase": "request"},
            {"events": ["tools/call", "prompts/*"], "phase": "response"},
        ],
        "mode": "audit",
        "failOpen": True,
        "priorityHint": {"response": 4},
        "compat": {"minProtocol": "2025-06-18"},
    }


def test_a_decorated_function_is_still_called_as_written() -> None:
    @validator(events=["tools/call"], phase="request")
    def no_rm(payload: dict[str, Any]) -> str | None:
        return "no" if "rm" in payload else None

    assert no_rm({"rm": 1}) == "no"
    assert no_rm(payload={}) is None
    assert repr(no_rm) == "<validation interceptor 'no_rm'>"
