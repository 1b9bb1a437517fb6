"""What a changed config makes different, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midspan.cli._guards import Guards

if TYPE_CHECKING:
    from midspan.plugins import Assembly
    from midspan_sdk import ChainEntry


def said(before: Guards, after: Guards) -> str:
    """Say what has changed, server by server, in one line."""
    lines = [
        f"{name}: {changed}"
        for name, assembly in after.assemblies.items()
        if (changed := _changed(before.assemblies.get(name), assembly))
    ]
    lines += [f"{name}: not served any more" for name in before.assemblies if name not in after.assemblies]
    return "; ".join(lines) or "the order and the policy of the interceptors are the same"


def _changed(before: Assembly | None, after: Assembly) -> str:
    from midspan.plugins import changed_instances

    entries = {entry.name: _policy_of(entry) for entry in after.chain.entries}
    if before is None:
        return f"served, with {len(entries)} interceptors"
    old = {entry.name: _policy_of(entry) for entry in before.chain.entries}
    marked = [f"+{name}" for name in entries if name not in old]
    marked += [f"-{name}" for name in old if name not in entries]
    marked += [f"~{name}" for name in entries if name in old and old[name] != entries[name]]
    known = {one.name for one in before.instances}
    changed = changed_instances(after.instances, before.instances)
    marked += [f"config of {name}" for name in changed if name in known]
    return " ".join(marked)


def _policy_of(entry: ChainEntry) -> tuple[object, ...]:
    """Return what the operator's policy and the plugin's own word come to for an entry."""
    priorities = (entry.priority("request"), entry.priority("response"))
    return (entry.mode, entry.fail_open, priorities, entry.timeout, entry.hooks)
