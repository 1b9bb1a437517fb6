"""What handlers may take."""

from __future__ import annotations

import re

from midspan_sdk import DefinitionError, validator

_MEANINGS = {
    "payload": ("`dict[str, Any]`", "a copy of the `params` or `result` object, this handler's own"),
    "params": ("a pydantic model", "the request's payload, typed; request phase only"),
    "result": ("a pydantic model", "the response's payload, typed; response phase only"),
    "request": (
        "`dict[str, Any] \\| None`",
        "in the response phase a copy of the request as it left; None in the request phase, or without an exchange",
    ),
    "event": ("`str`", "the JSON-RPC method"),
    "phase": ("`str`", "`request` or `response`"),
    "config": ("the plugin's model", "the validated config, or None when the plugin has none"),
    "context": ("`InvocationContext`", "principal, session, server, trace, protocol version"),
    "state": ("`State`", "of this exchange, shared by the plugin's handlers in both phases"),
    "session_state": ("`State`", "of the session, shared by the plugin's handlers; fails when the context names none"),
    "store": ("`Store`", "named values that outlive a session; the plugin's own keys only"),
    "lifespan": ("what the plugin yielded", "from `midspan_lifespan`, or None"),
    "tools": (
        "`ToolCatalog`",
        "the server's tools as listings showed them to the client, each a copy; empty before the first listing",
    ),
    "ask": ("`Ask`", "puts a question to the user, and waits for the answer"),
    "invocation": ("`Invocation`", "this call: its name, deadline, and whether it was cancelled"),
}
"""What the names mean. That these are the names, and what each needs, is read from the SDK."""


def parameter_table() -> str:
    """Return a row for each parameter that a handler may take.

    Raises:
        KeyError: the SDK knows a parameter that has no meaning here.
        ValueError: there is a meaning for what the SDK does not know.
    """
    names = _names()
    if unknown := _MEANINGS.keys() - set(names):
        raise ValueError(f"no parameter of a handler: {', '.join(sorted(unknown))}")
    rows = ["| parameter | annotation | what it is | needs |", "|---|---|---|---|"]
    for name in names:
        annotation, meaning = _MEANINGS[name]
        need = _need(name)
        rows.append(f"| `{name}` | {annotation} | {meaning} | {f'`{need}`' if need else ''} |")
    return "\n".join(rows)


def _names() -> list[str]:
    # The list is not public, but an error names it.
    def handler(unknown: object) -> None: ...

    try:
        validator(events=["*"], phase="request")(handler)
    except DefinitionError as error:
        found = re.search(r"a handler may take (.*)", str(error))
        assert found is not None
        return found[1].split(", ")
    raise AssertionError("a handler took an unknown parameter")


def _need(name: str) -> str | None:
    scope: dict[str, object] = {"BaseModel": __import__("pydantic").BaseModel}
    annotation = ": BaseModel" if name in ("params", "result") else ""
    exec(f"async def handler({name}{annotation}): pass", scope)  # noqa: S102 - a parameter of each name in turn
    phase = "response" if name == "result" else "request"
    interceptor = validator(events=["*"], phase=phase)(scope["handler"])  # pyright: ignore[reportArgumentType, reportUnknownVariableType] - made above
    return next(iter(interceptor.needs), None)
