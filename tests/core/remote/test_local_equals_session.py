"""For any set of interceptors and any payload: a chain over a server does what a chain in this process does."""

from __future__ import annotations

import json
import logging
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from pydantic import BaseModel
from remote_ways import server_of, text_of

from midspan_sdk import (
    Answer,
    Chain,
    Exchange,
    InvocationContext,
    MutationResult,
    ValidationResult,
    deny,
    mutator,
    validator,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)
KEYS = st.one_of(st.sampled_from(["name", "a", "b", "_meta", "cursor", "resultType", "cacheScope"]), TEXT)
PAYLOADS = st.dictionaries(KEYS, VALUES, max_size=5)

Verdict = Literal["allow", "reason", "warn", "info", "silent", "crash", "wrong", "looks"]
Change = Literal["none", "set", "drop", "empty", "equal", "forget", "crash", "wrong", "result", "same", "answer"]


class Spec(BaseModel):
    """What one interceptor is like."""

    kind: Literal["validation", "mutation"]
    does: str
    late: bool
    phase: Literal["request", "response", "both"]
    mode: Literal["active", "audit"]
    fail_open: bool
    priority: int
    override: dict[str, Any]
    keeps_state: bool
    compat: dict[str, str] | None
    key: str
    value: Any


def specs() -> st.SearchStrategy[Spec]:
    kinds = st.one_of(
        st.tuples(st.just("validation"), st.sampled_from(Verdict.__args__)),
        st.tuples(st.just("mutation"), st.sampled_from(Change.__args__)),
    )
    overrides = st.fixed_dictionaries(
        {}, optional={"mode": st.sampled_from(["active", "audit"]), "failOpen": st.booleans()}
    )
    return kinds.flatmap(
        lambda kind: st.builds(
            Spec,
            kind=st.just(kind[0]),
            does=st.just(kind[1]),
            late=st.booleans(),
            phase=st.sampled_from(["request", "response", "both"]),
            mode=st.sampled_from(["active", "active", "audit"]),
            fail_open=st.booleans(),
            priority=st.integers(-3, 3),
            override=overrides,
            keeps_state=st.booleans(),
            compat=st.sampled_from([None, None, {"min_protocol": "2026-07-28"}]),
            key=KEYS,
            value=VALUES,
        )
    )


def judgement(spec: Spec, payload: dict[str, Any], info: dict[str, Any]) -> Any:
    match spec.does:
        case "reason":
            return f"because of {spec.key}"
        case "warn" | "info":
            return deny("noted", severity=spec.does, info=info or None)  # pyright: ignore[reportArgumentType] - one of both
        case "silent":
            return ValidationResult(valid=False, info=info or None)
        case "crash":
            raise RuntimeError(str(payload))
        case "wrong":
            return 7
        case "looks":
            return ValidationResult(valid=spec.key not in payload, info={**info, "saw": payload})
        case _:
            return ValidationResult(valid=True, info=info or None)


def changed(spec: Spec, payload: dict[str, Any], info: dict[str, Any]) -> Any:
    match spec.does:
        case "set":
            return {**payload, spec.key: spec.value}
        case "drop":
            payload.pop(spec.key, None)
            return payload
        case "empty":
            return {}
        case "equal":
            return json.loads(json.dumps(payload))
        case "forget":
            payload[spec.key] = spec.value
            return None
        case "crash":
            raise KeyError(str(payload))
        case "wrong":
            return "text"
        case "result":
            return MutationResult(modified=True, payload={**payload, spec.key: spec.value}, info=info or None)
        case "same":
            return MutationResult(modified=False, payload={}, info=info or None)
        case "answer":
            return Answer({"content": [], spec.key: spec.value})
        case _:
            return None


def interceptor(name: str, spec: Spec) -> Any:
    """Make the interceptor: it keeps a count of its own in the state that all of them share."""
    work = judgement if spec.kind == "validation" else changed

    def counted(state: dict[str, Any]) -> dict[str, Any]:
        state[name] = state.get(name, 0) + 1
        return {"count": state[name], "all": sorted(state)} if spec.kind == "mutation" else {"count": state[name]}

    async def late_with_state(payload: dict[str, Any], state: dict[str, Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        return work(spec, payload, counted(state))

    def with_state(payload: dict[str, Any], state: dict[str, Any]) -> Any:
        return work(spec, payload, counted(state))

    async def late(payload: dict[str, Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        return work(spec, payload, {})

    def at_once(payload: dict[str, Any]) -> Any:
        return work(spec, payload, {})

    handler: Any = {
        (True, True): late_with_state,
        (True, False): with_state,
        (False, True): late,
        (False, False): at_once,
    }[spec.keeps_state, spec.late]
    options: dict[str, Any] = {
        "events": ["tools/call"],
        "phase": spec.phase,
        "name": name,
        "mode": spec.mode,
        "fail_open": spec.fail_open,
        "compat": spec.compat,
    }
    if spec.kind == "validation":
        return validator(**options)(handler)
    return mutator(**options, priority_hint=spec.priority)(handler)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chosen=st.lists(specs(), max_size=6),
    request=PAYLOADS,
    response=PAYLOADS,
    posture=st.sampled_from(["client", "server"]),
    version=st.sampled_from([None, "2025-06-18", "2026-07-28"]),
)
def test_a_chain_over_a_server_equals_one_in_this_process(
    mode: Any,
    chosen: list[Spec],
    request: dict[str, Any],
    response: dict[str, Any],
    posture: str,
    version: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, logger="midspan")
    # In turn by registration, so that names do not sort as they are registered.
    named = {f"p.{(index * 7) % 10}": spec for index, spec in enumerate(chosen)}
    overrides = {
        name: spec.override | ({"mayAnswer": True} if spec.kind == "mutation" else {}) for name, spec in named.items()
    }
    interceptors = [interceptor(name, spec) for name, spec in named.items()]
    context = InvocationContext(protocol_version=version, timestamp="2026-01-01T00:00:00Z")
    towards = {"client": ("sending", "receiving"), "server": ("receiving", "sending")}[posture]

    async def outcomes(chain: Chain) -> list[Any]:
        exchange = Exchange()
        seen: list[Any] = []
        for phase, payload, direction in zip(("request", "response"), (request, response), towards, strict=True):
            result = await chain.execute(
                event="tools/call",
                phase=phase,  # pyright: ignore[reportArgumentType] - zip forgets that it is a literal
                payload=payload,
                direction=direction,  # pyright: ignore[reportArgumentType] - the same
                context=context,
                exchange=exchange,
            )
            untouched = result.final_payload is payload
            seen.append([result.to_wire(), result.answer, result.answered_by, result.modified, untouched])
        return seen

    async def main() -> None:
        with anyio.fail_after(20):
            local = Chain()
            local.add(*interceptors, overrides=overrides)
            remote = Chain()
            async with Client(server_of(*interceptors), mode=mode) as client:
                await remote.add_server(client, overrides=overrides)
                before = json.dumps([request, response])
                assert text_of(await outcomes(remote)) == text_of(await outcomes(local))
                assert json.dumps([request, response]) == before

    anyio.run(main)
