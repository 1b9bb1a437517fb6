"""`midspan explain`: what the chain makes of one message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from midspan.cli._events import check_event
from midspan.cli._json_argument import METAVAR, json_object, json_value
from midspan.cli._options import building_options
from midspan.cli._output import echo
from midspan.errors import OperatorError, raise_all

if TYPE_CHECKING:
    from midspan.plugins import Builder
    from midspan.sight import Explained, Explainer, Message, ServerGroup
    from midspan_sdk import Reply
    from midspan_sdk.wire import Direction, Phase

BLOCKED = 1
"""Exit code of `--fail-on-block`."""


@click.command()
@click.option("--event", required=True, metavar="METHOD", help="The message's JSON-RPC method, such as tools/call.")
@click.option(
    "--payload",
    default="{}",
    metavar=METAVAR,
    help="Its params; in the response phase its result. Default: an empty object.",
)
@click.option("--phase", type=click.Choice(["request", "response"]), help="Default: request.")
@click.option(
    "--direction",
    type=click.Choice(["sending", "receiving"]),
    help="sending is client to server. Default: the way in which messages of this method go.",
)
@click.option("--request", metavar=METAVAR, help="In the response phase: the params of the request, which runs first.")
@click.option("--error", is_flag=True, help="The payload is a JSON-RPC error; implies the response phase.")
@click.option("--tools", metavar=METAVAR, help="The result of tools/list that the client was shown.")
@click.option("--server", metavar="NAME", help="Explain the chain in front of this server, of the config or not.")
@click.option("--principal", metavar="ID", help="On behalf of this user; default: you.")
@click.option("--session", default="explain", show_default=True, metavar="ID", help="In this session.")
@click.option("--answer", metavar="accept|decline|JSON", help="Answer questions to the user; default: leave them open.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object, for programs.")
@click.option("--fail-on-block", is_flag=True, help="Exit with 1 when the message is blocked.")
@building_options
def explain(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    event: str,
    payload: str,
    phase: Phase | None,
    direction: Direction | None,
    request: str | None,
    error: bool,
    tools: str | None,
    server: str | None,
    principal: str | None,
    session: str,
    answer: str | None,
    as_json: bool,
    fail_on_block: bool,
) -> int:
    """Run one message through the chain, and show what each step makes of it.

    Contacts no server, enters no lifespan, runs no observer and no sink: nothing is recorded or sent. The exit code is
    0 whatever the verdict, unless --fail-on-block says otherwise.
    """
    import asyncio

    _check(event, phase, error=error, request=request)
    message = json_object("--payload", payload)
    before = None if request is None else json_object("--request", request)
    listing = None if tools is None else _listing(json_value("--tools", tools))
    reply = None if answer is None else _reply(answer)

    from midspan.plugins import GATEWAY_GIVES, Builder
    from midspan.sight import Explainer, Message, Setting, usual_flow

    builder = Builder(
        config=config,
        plugins=plugins,
        no_plugins=no_plugins,
        plugin_files=plugin_files,
        gives=GATEWAY_GIVES,
    )
    group = _group(builder, server)
    wanted: Phase = "response" if error else phase or "request"
    messages: list[Message] = []
    if before is not None:
        opposite: dict[str, Direction] = {"sending": "receiving", "receiving": "sending"}
        back = None if direction is None else opposite[direction]
        messages.append(Message(event=event, payload=before, flow=usual_flow(event, "request", back)))
    if error and "error" not in message:
        message = {"error": message}
    messages.append(Message(event=event, payload=message, flow=usual_flow(event, wanted, direction), error=error))
    setting = Setting(server=server, principal=principal, session=session, tools=listing, reply=reply)
    explained = asyncio.run(_explained(Explainer(builder, group, setting), messages))
    if as_json:
        echo(json.dumps({"server": server, "phases": [one.as_json() for one in explained]}, indent=2))
    else:
        from midspan.cli._explain_text import print_explained

        print_explained(explained, server)
    return BLOCKED if fail_on_block and any(one.meaning == "blocked" for one in explained) else 0


async def _explained(explainer: Explainer, messages: list[Message]) -> list[Explained]:
    found: list[Explained] = []
    for message in messages:
        found += await explainer.explain(message)
        if found[-1].meaning != "passes":  # what would answer it never gets it
            break
    return found


def _check(event: str, phase: str | None, *, error: bool, request: str | None) -> None:
    if error and phase == "request":
        raise OperatorError("--error is an answer: leave --phase out, or say --phase response")
    check_event(event, response=error or phase == "response")
    if request is not None and not error and phase != "response":
        raise OperatorError("--request belongs to --phase response; the request itself goes into --payload")


def _listing(value: object) -> dict[str, Any]:
    listing = cast("object", {"tools": value} if isinstance(value, list) else value)
    if not isinstance(listing, dict) or not isinstance(cast("dict[str, Any]", listing).get("tools"), list):
        raise OperatorError('--tools: must be the result of tools/list, {"tools": [...]}, or the list in it')
    return cast("dict[str, Any]", listing)


def _reply(answer: str) -> Reply:
    from midspan_sdk import Reply

    if answer == "accept":
        return Reply(action="accept", content={})
    if answer == "decline":
        return Reply(action="decline")
    if not answer.startswith(("{", "@", "-")):
        raise OperatorError("--answer: accept, decline, or what the user fills in, as a JSON object")
    return Reply(action="accept", content=json_object("--answer", answer))


def _group(builder: Builder, server: str | None) -> ServerGroup:
    from midspan.sight import groups_of

    groups = groups_of(builder, server)
    if len(groups) > 1:
        chains = "; ".join(", ".join([*group.names, *["any other"] * group.others]) for group in groups)
        raise OperatorError(f"not all servers have the same chain; name one with --server ({chains})")
    raise_all(groups[0].problems)
    return groups[0]
