"""What `midspan chain` prints for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import click

from midspan.cli._output import Style, echo, echo_wrapped, print_table
from midspan.sight import ANY_OTHER, ChainView, EntryView, Origin, PlanView, Value, sentence

if TYPE_CHECKING:
    from midspan_sdk.wire import Phase

_KINDS = {"mutator": "yellow", "validator": "blue", "sink": "magenta"}
_PLUGINS_OWN = "*"
_FEW = 6
"""How many events of a plan are named one by one; more are counted."""
dim = partial(click.style, dim=True)
bold = partial(click.style, bold=True)


def print_chains(views: Sequence[ChainView], event: str | None) -> None:
    """Print the chains in front of all servers.

    Args:
        views: the chains.
        event: the event that was asked for, or None for all.
    """
    for number, view in enumerate(views):
        if number:
            echo("")
        _print_chain(view, event, headed=len(views) > 1 or bool(view.group.names))


def _print_chain(view: ChainView, event: str | None, *, headed: bool) -> None:
    if headed:
        echo_wrapped(_servers(view), style=bold)
    for problem in view.group.problems:
        echo_wrapped(f"refused: {problem.message}", indent=2, style=partial(click.style, fg="red"), hang=2)
    marks = _Marks()
    if not view.group.problems and not view.plans:
        echo("  no interceptor acts on any message" if event is None else f"  nothing acts on {event}")
    previous = None
    for plan in view.plans:
        if plan.flow != previous:
            if previous is not None or headed:
                echo("")
            echo_wrapped(sentence(plan.flow), style=_sentence)
            previous = plan.flow
        _print_plan(plan, marks, event)
    rows = marks.rows()
    if rows:
        echo("")
        print_table(rows, indent=2, styles=(_always(dim), _always(dim)))
    _print_rest(view)


def _servers(view: ChainView) -> str:
    names = [*view.group.names, *(["any other server"] if view.group.others else [])]
    return ", ".join(names)


def _sentence(text: str) -> str:
    return click.style(text, fg="cyan")


def _print_plan(plan: PlanView, marks: _Marks, event: str | None) -> None:
    if event is None:
        echo("")
        _print_events(plan.events)
    if not plan.entries:
        echo("  nothing runs")
        return
    rows = [_row(entry, plan.flow.phase, marks) for entry in plan.entries]
    header = ("STEP", "KIND", "INTERCEPTOR", "PRIORITY", "MODE", "ON FAILURE", "TIMEOUT")
    styles = (None, _kind_style, None, None, _mode_style, _failure_style)
    print_table(rows, header=header, indent=2, styles=styles)


def _print_events(events: Sequence[str]) -> None:
    methods = [event for event in events if event != ANY_OTHER]
    text, more = ", ".join(methods[:_FEW]), len(methods) - _FEW
    if more > 0:
        text += f" and {more} {'other' if more == 1 else 'others'}"
    if ANY_OTHER in events:
        text += f"{'; ' if text else ''}any method that MCP does not have"
    echo_wrapped(text, indent=2, style=bold)


def _row(entry: EntryView, phase: Phase, marks: _Marks) -> tuple[str, ...]:
    values = entry.values
    hooks = values["hooks"]
    narrowed = marks.of(hooks) if hooks is not None and hooks.origin.kind == "config" else ""
    return (
        str(entry.step),
        entry.kind,
        f"{entry.name}{narrowed}",
        _cell(values["priority"], marks),
        _cell(values["mode"], marks),
        _cell(values["fail_open"], marks, _failure),
        _cell(values["timeout"], marks, duration_text),
    )


def _cell(value: Value | None, marks: _Marks, text: Callable[[Any], str] = str) -> str:
    return "-" if value is None else f"{text(value.value)}{marks.of(value)}"


def _failure(fail_open: bool) -> str:
    return "pass" if fail_open else "block"


def duration_text(milliseconds: float) -> str:
    """Return `250ms`, or `1.5s`, as the config has it."""
    return f"{milliseconds / 1000:g}s" if milliseconds >= 1000 else f"{milliseconds:g}ms"


class _Marks:
    """Marks beside values: a star for the plugin's own, a letter for each place in the config."""

    def __init__(self) -> None:
        self._places: dict[Origin, str] = {}
        self._declared = False
        self._default = False

    def of(self, value: Value) -> str:
        """Return the mark of a value; none for the default."""
        origin = value.origin
        if origin.kind == "default":
            self._default = True
            return ""
        if origin.kind == "plugin":
            self._declared = True
            return _PLUGINS_OWN
        return f"[{self._places.setdefault(origin, _letters(len(self._places)))}]"

    def rows(self) -> list[tuple[str, str]]:
        """Return the legend."""
        found = [(f"[{letters}]", origin.text) for origin, letters in self._places.items()]
        if self._declared:
            found.append((_PLUGINS_OWN, "declared by the plugin"))
        if self._default:
            found.append(("", "all else is the default"))
        return found


def _letters(number: int) -> str:
    rest, letter = divmod(number, len(ascii_lowercase))
    return (_letters(rest - 1) if rest else "") + ascii_lowercase[letter]


def _print_rest(view: ChainView) -> None:
    rows: list[tuple[str, str, str]] = []
    observing = {name: [one for one in view.observers if one.instance == name] for name, _, _ in view.instances}
    for name, info, place in view.instances:
        observers = "".join(
            f", {'durable observer' if one.durable else 'observer'} {one.name}" for one in observing[name]
        )
        rows.append((name, f"{info.origin}{observers}", "" if place is None else place.place))
    if rows:
        _heading("from")
        print_table(rows, indent=2, styles=(None, None, _always(dim)))
    if view.remote:
        _heading("joins at the start")
        offered = "an interceptor server; what it offers is known when it is asked"
        rows = [(name, offered, place.place) for name, place in view.remote]
        print_table(rows, indent=2, styles=(None, None, _always(dim)))
    if view.left_out:
        _heading("not here")
        rows = [(name, why, place.place) for name, why, place in view.left_out]
        print_table(rows, indent=2, styles=(None, None, _always(dim)))


def _heading(text: str) -> None:
    echo(f"\n{bold(text)}")


def _always(style: Style) -> Callable[[str], Style]:
    return lambda _: style


def _kind_style(text: str) -> Style | None:
    return partial(click.style, fg=_KINDS[text]) if text in _KINDS else None


def _mode_style(text: str) -> Style | None:
    return partial(click.style, fg="yellow") if text.startswith("audit") else None


def _failure_style(text: str) -> Style | None:
    return partial(click.style, fg="yellow") if text.startswith("pass") else None
