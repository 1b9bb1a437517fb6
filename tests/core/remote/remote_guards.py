"""The interceptors of the matrix: the same ones run in this process, on servers in memory, and in a child process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict

from midspan_sdk import (
    Answer,
    Invocation,
    InvocationContext,
    MutationResult,
    SinkResult,
    Store,
    Suggestion,
    ValidationMessage,
    ValidationResult,
    allow,
    deny,
    mutator,
    sink,
    validator,
)

CALL = ["tools/call"]
Payload = dict[str, Any]


class Limits(BaseModel):
    """A config model."""

    model_config = ConfigDict(extra="forbid")

    most: int = 3


class Call(BaseModel):
    """A typed payload that does not know all keys."""

    name: str
    note: str | None = None


# What validators may return


@validator(events=CALL, phase="both")
def v_none() -> None: ...


@validator(events=CALL, phase="request")
def v_true() -> bool:
    return True


@validator(events=CALL, phase="request")
def v_false() -> bool:
    return False


@validator(events=CALL, phase="request")
def v_reason() -> str:
    return "because of rule 7"


@validator(events=CALL, phase="request")
def v_empty_reason() -> str:
    return ""


@validator(events=CALL, phase="request")
async def v_late_reason() -> str:
    await anyio.lowlevel.checkpoint()
    return "thought about it"


@validator(events=CALL, phase="request", blocking=True)
def v_thread(payload: Payload) -> str:
    return f"thread: {payload['name']}"


@validator(events=CALL, phase="request")
def v_allowed() -> ValidationResult:
    return allow()


@validator(events=CALL, phase="both")
def v_deny() -> ValidationResult:
    return deny(
        "too long",
        path="$.arguments.text",
        suggestions=(Suggestion(path="$.arguments.text", value={"short": [1, None]}),),
        info={"rule": "deny[0]", "nested": {"a": None}},
    )


@validator(events=CALL, phase="request")
def v_warn() -> ValidationResult:
    return deny("dubious", severity="warn")


@validator(events=CALL, phase="request")
def v_info() -> ValidationResult:
    return deny("noted", severity="info")


@validator(events=CALL, phase="request")
def v_silent() -> ValidationResult:
    return ValidationResult(valid=False)


@validator(events=CALL, phase="request")
def v_worst() -> ValidationResult:
    messages = (
        ValidationMessage(message="first", severity="info"),
        ValidationMessage(message="second", severity="error", path="$.name"),
        ValidationMessage(message="third", severity="warn"),
    )
    return ValidationResult(valid=False, messages=messages)


@validator(events=CALL, phase="request")
def v_worst_is_warn() -> ValidationResult:
    messages = (ValidationMessage(message="a", severity="info"), ValidationMessage(message="b", severity="warn"))
    return ValidationResult(valid=False, messages=messages)


@validator(events=CALL, phase="request")
def v_valid_with_error() -> ValidationResult:
    message = ValidationMessage(message="odd", severity="error")
    return ValidationResult(valid=True, severity="error", messages=(message,))


@validator(events=CALL, phase="request")
def v_signed() -> ValidationResult:
    signature: Any = {"algorithm": "ed25519", "public_key": "AAAA", "value": "BBBB"}
    return ValidationResult(valid=True, signature=signature)


# Failures


@validator(events=CALL, phase="both")
def v_crash(payload: Payload) -> None:
    raise RuntimeError(f"/etc/{payload}")


@validator(events=CALL, phase="request", fail_open=True)
def v_crash_open(payload: Payload) -> None:
    raise RuntimeError(f"/etc/{payload}")


@validator(events=CALL, phase="request")
async def v_crash_late() -> None:
    await anyio.lowlevel.checkpoint()
    raise KeyError("late")


@validator(events=CALL, phase="request")
def v_exits() -> None:
    raise SystemExit(3)


@validator(events=CALL, phase="request")
def v_wrong() -> Any:
    return 5


@validator(events=CALL, phase="request")
def v_wrong_result() -> Any:
    return MutationResult(modified=False, payload={})


@validator(events=CALL, phase="request")
async def v_hangs() -> None:
    await anyio.sleep_forever()


@validator(events=CALL, phase="request", timeout=0.05)
async def v_hangs_declared() -> None:
    await anyio.sleep_forever()


@validator(events=CALL, phase="request", timeout=0.05)
def v_holds() -> None:
    time.sleep(0.08)


@validator(events=CALL, phase="request", compat={"min_protocol": "2026-07-28"})
def v_modern() -> None: ...


@mutator(events=CALL, phase="request", compat={"min_protocol": "2025-03-26", "max_protocol": "2025-11-25"})
def m_classic(payload: Payload) -> Payload:
    return {**payload, "classic": True}


# What handlers get


@validator(events=CALL, phase="both")
def v_sees(payload: Payload, event: str, phase: str) -> ValidationResult:
    return ValidationResult(valid=True, info={"saw": payload, "event": event, "phase": phase})


@validator(events=CALL, phase="both")
def v_edits(payload: Payload) -> None:
    payload["name"] = "edited"
    payload["arguments"]["text"] = "edited"
    payload["arguments"].setdefault("list", []).append(1)


@validator(events=CALL, phase="request")
def v_context(context: InvocationContext) -> ValidationResult:
    return ValidationResult(valid=True, info=context.model_dump(mode="json"))


@validator(events=CALL, phase="request")
def v_invocation(invocation: Invocation) -> ValidationResult:
    seen = {name: getattr(invocation, name) for name in ("interceptor", "event", "phase", "timeout_ms", "cancelled")}
    return ValidationResult(valid=True, info=seen)


@validator(events=CALL, phase="both")
def v_request(request: Payload | None) -> ValidationResult:
    return ValidationResult(valid=True, info={"request": request})


@validator(events=CALL, phase="request")
def v_config(payload: Payload, config: Limits) -> str | None:
    most = config.most if config else 3  # without a host nobody gave it one
    return f"more than {most}" if len(payload["arguments"]["text"]) > most else None


@validator(events=CALL, phase="request")
def v_typed(params: Call) -> str:
    return f"{params.name}: {params.note}"


@validator(events=["*"], phase="both")
def v_any() -> ValidationResult:
    return ValidationResult(valid=True, info={"any": True})


@validator(events=["resources/*", "prompts/get"], phase="response")
def v_glob() -> str:
    return "globbed"


@validator(events=CALL, phase="request", mode="audit")
def v_audit() -> str:
    return "only recorded"


# Mutators


@mutator(events=CALL, phase="both")
def m_adds(payload: Payload) -> Payload:
    return {**payload, "added": {"by": "m_adds", "nothing": None}}


@mutator(events=CALL, phase="request")
async def m_adds_late(payload: Payload) -> Payload:
    await anyio.lowlevel.checkpoint()
    payload["late"] = [1, 1.0, True]
    return payload


@mutator(events=CALL, phase="request")
def m_none() -> None: ...


@mutator(events=CALL, phase="request")
def m_equal(payload: Payload) -> Payload:
    return json.loads(json.dumps(payload))


@mutator(events=CALL, phase="request")
def m_retypes(payload: Payload) -> Payload:
    return {**payload, "number": float(payload["number"])}


@mutator(events=CALL, phase="request")
def m_edits_and_forgets(payload: Payload) -> None:
    payload["arguments"]["text"] = "edited"


@mutator(events=CALL, phase="request")
def m_empties() -> Payload:
    return {}


@mutator(events=CALL, phase="request")
def m_typed(params: Call) -> Call:
    return params.model_copy(update={"note": "typed"})


@mutator(events=CALL, phase="request")
def m_result(payload: Payload) -> MutationResult:
    return MutationResult(modified=True, payload={**payload, "result": 1}, info={"why": "result", "none": None})


@mutator(events=CALL, phase="request")
def m_not_modified() -> MutationResult:
    return MutationResult(modified=False, payload={"other": "payload"}, info={"why": "not"})


@mutator(events=CALL, phase="both")
def m_crash() -> None:
    raise RuntimeError("broken")


@mutator(events=CALL, phase="request", fail_open=True)
def m_crash_open() -> None:
    raise RuntimeError("broken")


@mutator(events=CALL, phase="request")
def m_wrong() -> Any:
    return True


@mutator(events=CALL, phase="request")
def m_wrong_result() -> Any:
    return ValidationResult(valid=True)


@mutator(events=CALL, phase="request")
def m_not_json() -> Any:
    return {"when": object()}


@mutator(events=CALL, phase="request")
async def m_hangs() -> None:
    await anyio.sleep_forever()


@mutator(events=CALL, phase="request", mode="audit")
def m_audit(payload: Payload) -> Payload:
    return {**payload, "audited": True}


def _trail(payload: Payload, letter: str) -> Payload:
    return {**payload, "trail": payload.get("trail", "") + letter}


@mutator(events=CALL, phase="both", priority_hint={"request": 5, "response": -5})
def m_a(payload: Payload) -> Payload:
    return _trail(payload, "a")


@mutator(events=CALL, phase="both", priority_hint=-(2**31))
def m_b(payload: Payload) -> Payload:
    return _trail(payload, "b")


@mutator(events=CALL, phase="both")
def m_c(payload: Payload) -> Payload:
    return _trail(payload, "c")


@mutator(events=CALL, phase="both", priority_hint={"response": -9})
def m_d(payload: Payload) -> Payload:
    return _trail(payload, "d")


@mutator(events=CALL, phase="request", priority_hint=1)
def m_answers(payload: Payload) -> Answer:
    return Answer({"content": [{"type": "text", "text": payload["name"]}], "extra": None})


@mutator(events=CALL, phase="response")
def m_answers_a_response() -> Answer:
    return Answer({"content": []})


# Protected parts


@mutator(events=["*"], phase="both")
def m_sets(payload: Payload) -> Payload:
    """Set what the payload's own `set` says, and drop what its `drop` says."""
    changed = {**payload, **payload.get("set", {})}
    return {key: value for key, value in changed.items() if key not in payload.get("drop", [])}


# State


class Vault:
    """Handlers of one object: they share their exchange's state."""

    @mutator(events=CALL, phase="request")
    def hide(self, payload: Payload, state: dict[str, Any]) -> Payload:
        state["hidden"] = payload["arguments"].pop("secret", None)
        state["list"] = [1, None, {"a": 2**60 + 1}]
        return payload

    @mutator(events=CALL, phase="response")
    def restore(self, payload: Payload, state: dict[str, Any]) -> Payload:
        return {**payload, "restored": state.pop("hidden"), "list": state["list"]}

    @validator(events=CALL, phase="both")
    async def tells(self, state: dict[str, Any]) -> ValidationResult:
        await anyio.lowlevel.checkpoint()
        return ValidationResult(valid=True, info={"state": dict(state)})


@validator(events=CALL, phase="both", name="pair.first")
async def pair_first(state: dict[str, Any]) -> ValidationResult:
    await anyio.lowlevel.checkpoint()
    state["first"] = state.get("first", 0) + 1
    return ValidationResult(valid=True, info={"state": dict(state)})


@validator(events=CALL, phase="both", name="pair.second")
async def pair_second(state: dict[str, Any]) -> ValidationResult:
    await anyio.lowlevel.checkpoint()
    state["second"] = state.get("second", 0) + 1
    return ValidationResult(valid=True, info={"state": dict(state)})


@validator(events=CALL, phase="both", name="stranger.alone")
def stranger(state: dict[str, Any]) -> ValidationResult:
    return ValidationResult(valid=True, info={"state": dict(state)})


@validator(events=CALL, phase="request")
def v_bad_state(state: dict[str, Any]) -> None:
    state["when"] = object()


@validator(events=CALL, phase="request")
def v_nth(session_state: dict[str, Any]) -> str:
    session_state["n"] = session_state.get("n", 0) + 1
    return f"call {session_state['n']}"


@validator(events=CALL, phase="request")
async def v_stored(payload: Payload, store: Store) -> str:
    return f"stored {await store.increment(payload['arguments']['key'])}"


# Sinks


def _record(payload: Payload, who: str) -> None:
    with Path(payload["arguments"]["file"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"who": who, "payload": payload}) + "\n")


@sink(events=CALL, phase="both")
def s_file(payload: Payload) -> None:
    _record(payload, "s_file")


@sink(events=CALL, phase="request")
async def s_file_late(payload: Payload) -> SinkResult:
    await anyio.lowlevel.checkpoint()
    _record(payload, "s_file_late")
    return SinkResult(recorded=True, metrics={"bytes": 5.0})


@sink(events=CALL, phase="request")
def s_crash() -> None:
    raise RuntimeError("full")


@sink(events=CALL, phase="request")
def s_wrong() -> Any:
    return "recorded"


def all_guards() -> list[object]:
    """Return every interceptor of this module, and the vault."""
    from midspan_sdk import Interceptor

    return [*(value for value in globals().values() if isinstance(value, Interceptor)), Vault()]
