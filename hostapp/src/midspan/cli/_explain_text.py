"""What `midspan explain` prints for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import click

from midspan.cli._output import echo, echo_wrapped, width
from midspan.errors import one_line
from midspan.sight import ABSENT, Change, Explained, ExplainedStep

_COLOURS: Final = {
    "allowed": "green",
    "denied": "red",
    "failed": "red",
    "timeout": "red",
    "warned": "yellow",
    "asked": "yellow",
    "modified": "yellow",
    "answered": "yellow",
}
_REPLIED: Final = {"accept": "accepted", "decline": "declined", "cancel": "put away"}
_CONTEXT: Final = 24
"""Characters that are shown around what differs in a long text."""
bold = partial(click.style, bold=True)
dim = partial(click.style, dim=True)


def print_explained(explained: Sequence[Explained], server: str | None) -> None:
    """Print what a chain makes of a message: the request's phase first, where both are there."""
    for number, one in enumerate(explained):
        if number:
            echo("")
        _print_one(one, server)


def _print_one(one: Explained, server: str | None) -> None:
    flow = one.message.flow
    way = "client to server" if flow.direction == "sending" else "server to client"
    error = ", an error" if one.message.error else ""
    before = f", in front of {server}" if server is not None else ""
    echo_wrapped(f"{one.message.event} {flow.phase}{error}, {way}{before}", style=bold)
    echo("")
    if not one.steps:
        echo("  nothing acts on it")
    widths = [max(map(len, column)) for column in zip(*(_cells(step) for step in one.steps), strict=True)]
    for step in one.steps:
        _print_step(step, widths)
    for name in one.remote:
        echo_wrapped(f"-  {name}: an interceptor server, which is not asked", indent=2, hang=3, style=dim)
    for question, reply in one.questions:
        said = "left open; --answer answers it" if reply is None else _REPLIED[reply.action]
        echo_wrapped(f"?  {question.interceptor} asks: {question.message} ({said})", indent=2, hang=3)
    echo("")
    _print_outcome(one)


def _cells(step: ExplainedStep) -> tuple[str, str, str, str]:
    return str(step.entry.step), step.entry.kind, step.entry.name, step.verdict


def _print_step(step: ExplainedStep, widths: Sequence[int]) -> None:
    cells = [text.ljust(size) for text, size in zip(_cells(step), widths, strict=True)]
    colour = _COLOURS.get(step.verdict)
    cells[-1] = click.style(cells[-1], fg=colour, bold=step.blocked) if colour else dim(cells[-1])
    took = "" if step.duration_ms is None else dim(f"{step.duration_ms:.2f}ms")
    echo(f"  {'  '.join(cells)}  {took}".rstrip())
    for reason in step.reasons:
        echo_wrapped(reason, indent=5, hang=2)
    if step.info:
        echo_wrapped(f"info {json.dumps(step.info, ensure_ascii=False)}", indent=5, hang=2, style=dim)
    if step.meaning:
        echo_wrapped(step.meaning, indent=5, hang=2, style=partial(click.style, fg="yellow"))
    _print_changes(step.changes, indent=5)
    if step.answer is not None:
        _print_lines([("+ ", json.dumps(step.answer, ensure_ascii=False), "green")], indent=5)


def _print_outcome(one: Explained) -> None:
    aborted = one.result.aborted_at
    if one.meaning == "asks":
        echo_wrapped("ASKS the user, and goes on with the answer.", style=partial(click.style, fg="yellow", bold=True))
    elif aborted is not None:
        said = f"BLOCKED by {aborted.interceptor}: {aborted.reason}"
        echo_wrapped(said, hang=2, style=partial(click.style, fg="red", bold=True))
        _print_told(one)
    elif one.meaning == "answered":
        said = f"ANSWERED by {one.result.answered_by}; the other side never hears of it. The answer goes back:"
        echo_wrapped(said, hang=2, style=partial(click.style, fg="yellow", bold=True))
    else:
        said = "PASSES, changed:" if one.changes else "PASSES unchanged."
        echo_wrapped(said, style=partial(click.style, fg="green", bold=True))
        _print_changes(one.changes, indent=2)


def _print_told(one: Explained) -> None:
    if one.told is None:
        echo("  nobody is told: it is a notification")
        return
    clients = (one.message.flow.phase == "request") == (one.message.flow.direction == "sending")
    who = "the client" if clients else "the server"
    if "result" in one.told:
        echo_wrapped(f"{who} gets a tool result: {one.told['result']['content'][0]['text']}", indent=2, hang=2)
    else:
        error = one.told["error"]
        data = json.dumps(error.get("data"), ensure_ascii=False)
        echo_wrapped(f"{who} gets the error {error['code']}, {error['message']}: {data}", indent=2, hang=2)


def _print_changes(changes: Iterable[Change], *, indent: int) -> None:
    for change in changes:
        before, after = _shortened(change.before, change.after, width() - indent - 2)
        echo(f"{' ' * indent}{dim(one_line(change.path))}")
        lines = [("- ", before, "red")] if before is not None else []
        lines += [("+ ", after, "green")] if after is not None else []
        _print_lines(lines, indent=indent)


def _print_lines(lines: Iterable[tuple[str, str, str]], *, indent: int) -> None:
    for sign, text, colour in lines:
        echo(f"{' ' * indent}{click.style(sign + one_line(text), fg=colour)}")


def _shortened(before: Any, after: Any, room: int) -> tuple[str | None, str | None]:
    """Return both values as JSON; of long ones what differs, with a little around it."""
    old, new = (None if value is ABSENT else json.dumps(value, ensure_ascii=False) for value in (before, after))
    if old is None or new is None or max(len(old), len(new)) <= room:
        return old, new
    shared = min(len(old), len(new))
    head = next((index for index in range(shared) if old[index] != new[index]), shared)
    shared -= head
    tail = next((index for index in range(shared) if old[-1 - index] != new[-1 - index]), shared)
    return _cut(old, head, tail), _cut(new, head, tail)


def _cut(text: str, head: int, tail: int) -> str:
    start, end = max(head - _CONTEXT, 0), min(len(text) - tail + _CONTEXT, len(text))
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
