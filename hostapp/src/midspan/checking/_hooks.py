"""Hooks that match no message that ever comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from midspan.config import PluginSettings
from midspan_sdk.events import METHODS, hooked_only_by_name, is_notification, matches
from midspan_sdk.wire import UNINTERCEPTED_METHODS

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.errors import OperatorError
    from midspan.plugins import Instance
    from midspan_sdk import ChainEntry
    from midspan_sdk.wire import Phase

_NEAR: Final = 0.8


def hooks_that_never_match(
    config: Config, instance: Instance, entries: Sequence[ChainEntry]
) -> Iterator[OperatorError]:
    """Yield each hook of an instance that can match no message, or hardly the one that was meant."""
    settings = config.plugins.get(instance.name, PluginSettings())
    for entry in entries:
        hooks: list[tuple[str, Phase]] = [(event, hook.phase) for hook in entry.hooks for event in hook.events]
        hooks = list(dict.fromkeys(hooks))
        found = {hook: problem for hook in hooks if (problem := problem_of(*hook))}
        for problem in dict.fromkeys(found.values()):
            never = "; it never runs" if len(found) == len(hooks) else ""
            own = instance.own_name(entry.name)
            if entry.origin("hooks") == "override" and own in settings.interceptors:
                yield config.source.error(f"{problem}{never}", "plugins", instance.name, "interceptors", own, "hooks")
            else:
                yield instance.plugin.info.error(f"{own}: {problem}{never}", instance=instance.name)


def problem_of(pattern: str, phase: Phase) -> str | None:
    """Say why a hook matches nothing, or hardly what was meant; None when it is well."""
    found = [method for method in METHODS if matches(pattern, method)]
    if not found:
        return _mistyped(pattern)
    reached = [
        one for one in found if one not in UNINTERCEPTED_METHODS and (one == pattern or not hooked_only_by_name(one))
    ]
    if not reached and pattern in UNINTERCEPTED_METHODS:
        return f"hooks {pattern!r}, which keeps the connection working: no chain ever sees it"
    if not reached:
        return f"hooks {pattern!r}, which no message matches: {' and '.join(found)} must be named in full"
    if phase == "response" and all(is_notification(one) for one in reached):
        what = "which is a notification" if "*" not in pattern else "which matches notifications only"
        return f"hooks {pattern!r} in the response phase, {what}: nobody answers it; hook the request phase"
    return None


def _mistyped(pattern: str) -> str | None:
    near = mistyped(pattern)
    return f"hooks {pattern!r}, which no method of MCP matches; did you mean {near!r}?" if near else None


def mistyped(pattern: str) -> str | None:
    """Return the method, or the glob, that one was meant for; None when it is one, or may be a server's own."""
    known = METHODS
    if any(matches(pattern, method) for method in METHODS):
        return None
    if "*" in pattern:
        known = tuple(dict.fromkeys(f"{method.partition('/')[0]}/*" for method in METHODS if "/" in method))
    near = get_close_matches(pattern, known, n=1, cutoff=_NEAR)
    return near[0] if near else None
