"""What `midspan_checks` finds in a policy as it is mounted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from midspan_policy._config import PolicyConfig
from midspan_policy._glob import Glob
from midspan_policy._rules import Policy, Rule
from midspan_sdk import ChainEntry, Problem
from midspan_sdk.events import TOOLS_CALL, TOOLS_LIST, overlaps

_OTHER_WILDCARDS = "?[]{}"


def find_problems(config: PolicyConfig, entries: Sequence[ChainEntry]) -> list[Problem]:
    """Return what cannot work, or works otherwise than the config reads.

    Args:
        config: the instance's config.
        entries: the instance's entries, the operator's overrides applied.
    """
    enforcing = [entry for entry in entries if entry.type == "validation" and entry.matches(TOOLS_CALL, "request")]
    hiding = [entry for entry in entries if entry.type == "mutation" and entry.matches(TOOLS_LIST, "response")]
    mounted = _dry_run(enforcing + hiding) if config.dry_run else _enforcement(enforcing, hiding)
    return [*mounted, *_patterns(config), *_dead_rules(config.policy)]


def _dry_run(entries: Sequence[ChainEntry]) -> Iterator[Problem]:
    yield Problem(message="dry run: verdicts are recorded, every call and listing passes", severity="warning")
    for entry in entries:
        if entry.mode == "active":
            yield Problem(
                message='dry_run = true, but mode = "active" is set, which acts on messages; remove one of the two',
                interceptor=entry.name,
            )


def _enforcement(enforcing: Sequence[ChainEntry], hiding: Sequence[ChainEntry]) -> Iterator[Problem]:
    if not enforcing:
        yield Problem(message="nothing enforces the policy on tools/call; enable `call`, or disable the plugin")
    for entry in enforcing:
        if entry.mode == "audit":
            yield Problem(
                message="cannot block in audit mode; set dry_run = true in the plugin's config if that is meant, or "
                'remove mode = "audit"',
                interceptor=entry.name,
            )
        if entry.fail_open:
            yield Problem(
                message="fail_open lets a call pass when the policy cannot be evaluated; remove it",
                severity="warning",
                interceptor=entry.name,
            )
    if not any(entry.mode == "active" for entry in hiding):
        yield Problem(
            message="listings are not filtered: denied tools stay visible, although calls of them are denied",
            severity="warning",
            interceptor=hiding[0].name if hiding else None,
        )


def _patterns(config: PolicyConfig) -> Iterator[Problem]:
    for rule in (*config.policy.allow, *config.policy.deny):
        pattern = rule.pattern or ""
        special = next((character for character in pattern if character in _OTHER_WILDCARDS), None)
        if special is not None:
            yield Problem(
                message=f"{rule.id} ({pattern!r}): {special!r} stands for itself; only * is a wildcard",
                severity="warning",
            )
        if pattern != pattern.strip():
            yield Problem(
                message=f"{rule.id} ({pattern!r}) starts or ends with white space, which names must have too to match",
                severity="warning",
            )
        if rule.effect == "allow" and not pattern.isprintable():
            yield Problem(
                message=f"{rule.id} ({pattern!r}) has invisible characters, which names must have too to match",
                severity="warning",
            )


def _dead_rules(policy: Policy) -> Iterator[Problem]:
    for rules in (policy.allow, policy.deny):
        for number, rule in enumerate(rules):
            earlier = next((one for one in rules[:number] if _glob(one).covers(_glob(rule))), None)
            if earlier is not None:
                yield Problem(
                    message=f"{rule.id} ({rule.pattern!r}) never decides: {earlier.id} ({earlier.pattern!r}) matches "
                    "all of it before; remove one of the two",
                    severity="warning",
                )
    if not policy.allow:
        return
    for rule in policy.deny:
        if not any(_may_share(rule, allowed) for allowed in policy.allow):
            yield Problem(
                message=f"{rule.id} ({rule.pattern!r}) never matters: no allow pattern matches any of it, so that it "
                "is denied anyway; remove it",
                severity="warning",
            )


def _glob(rule: Rule) -> Glob:
    assert rule.glob is not None
    return rule.glob


def _may_share(denied: Rule, allowed: Rule) -> bool:
    """Tell whether some name could match both; when in doubt, yes."""
    # A literal asterisk of a part counts as a wildcard here, which only makes more names match.
    text = "*".join(_glob(allowed).folded().parts)
    # A deny matches names without the spaces around them, too.
    return any(overlaps("*".join(_glob(denied).parts), one) for one in (text, text.strip(" ")))
