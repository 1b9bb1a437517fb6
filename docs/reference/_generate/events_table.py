"""The names of events."""

from __future__ import annotations

from midspan_sdk import events


def event_names() -> str:
    """Return a row for each event that has a constant."""
    rows = ["| event | constant |", "|---|---|"]
    names = {name: value for name, value in vars(events).items() if name in events.__all__ and isinstance(value, str)}
    rows += [f"| `{value}` | `{name}` |" for name, value in sorted(names.items(), key=lambda pair: pair[1])]
    return "\n".join(rows)
