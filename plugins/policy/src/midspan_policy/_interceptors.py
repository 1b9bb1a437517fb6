"""The two interceptors: one enforces the policy, the other keeps listings honest about it."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from midspan_policy._config import PolicyConfig
from midspan_policy._rules import MAX_NAME, OVERLONG, UNNAMED, Rule
from midspan_sdk import (
    Bindings,
    Interceptor,
    InvalidInvocationError,
    Invocation,
    MutationResult,
    ValidationResult,
    deny,
    mutator,
    validator,
)
from midspan_sdk.events import TOOLS_CALL, TOOLS_LIST

# A gateway's calls are judged under the server's names, after mutators renamed them; so listings are filtered before
# mutators rename what is in them.
LISTING_PRIORITY = -1000

MAX_QUOTED = 100


def build(config: PolicyConfig) -> list[Interceptor[..., Any]]:
    """Return the interceptors of one instance, bound to its config."""
    mode = "audit" if config.dry_run else "active"
    bindings = Bindings(config=config)
    enforcing = validator(events=[TOOLS_CALL], phase="request", mode=mode)(call)
    hiding = mutator(events=[TOOLS_LIST], phase="response", mode=mode, priority_hint={"response": LISTING_PRIORITY})(
        listing
    )
    return [enforcing.bound(bindings=bindings), hiding.bound(bindings=bindings)]


def call(payload: dict[str, Any], config: PolicyConfig) -> ValidationResult | None:
    """Deny calls of tools that the policy does not allow."""
    name = payload.get("name")
    rule = config.policy.decide(name)
    if rule.effect == "allow":
        return None
    return deny(_reason(rule, name), path="$.name", info={"rule": rule.id})


def listing(payload: dict[str, Any], config: PolicyConfig, invocation: Invocation) -> MutationResult | None:
    """Hide tools whose calls the policy denies.

    All else of the result stays as it is. An entry without a name that is a string is hidden: no call of it would pass.

    Raises:
        InvalidInvocationError: `tools` is not a list, so that it cannot be filtered; the listing is blocked.
    """
    tools = payload.get("tools")
    if tools is None:
        return None
    if not isinstance(tools, list):
        raise InvalidInvocationError(invocation.interceptor, "`tools` of the listing is not a list")
    decide = config.policy.decide
    kept: list[object] = []
    hidden: Counter[str] = Counter()
    for tool in cast("list[object]", tools):
        rule = decide(_name_of(tool))
        if rule.effect == "allow":
            kept.append(tool)
        else:
            hidden[rule.id] += 1
    if not hidden:
        return None
    payload["tools"] = kept
    return MutationResult(modified=True, payload=payload, info={"hidden": dict(hidden)})


def _name_of(tool: object) -> object:
    return cast("dict[str, object]", tool).get("name") if isinstance(tool, dict) else None


def _reason(rule: Rule, name: object) -> str:
    if rule is UNNAMED:
        return "the call is denied by rule unnamed (`name` is missing or not a string)"
    if rule is OVERLONG:
        why = f"the name has more than {MAX_NAME} characters"
    elif rule.pattern is not None:
        why = _quoted(rule.pattern)
    else:
        why = "no allow pattern matches"
    return f"tool {_quoted(cast('str', name))} is denied by rule {rule.id} ({why})"


def _quoted(text: str) -> str:
    # repr escapes what is invisible, so that a name can neither forge a line of a log nor hide in it.
    return repr(text) if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]!r}..."
