"""From the enabled plugins to an MCP server that serves their interceptors."""

from __future__ import annotations

from typing import Any

import importlib_metadata
from mcp.server import Server

from midspan.errors import OperatorError
from midspan.plugins import Assembly
from midspan_sdk import DefinitionError
from midspan_sdk.mcp import InterceptorsExtension

NAME = "midspan"


def interceptor_server(assembly: Assembly) -> Server[Any]:
    """Build the server. Its handlers may run while the assembly does (`assembly.running()`).

    What the operator's config says of an interceptor (mode, fail_open, priority, hooks, timeout) stands in its
    descriptor here, as if its author had written it: the chain that invokes it is another host's, whose operator has
    the last word.

    Raises:
        OperatorError: nothing that is enabled contributes an interceptor, or one cannot be served.
    """
    if not assembly.interceptors:
        raise OperatorError(_nothing_to_serve(assembly))
    try:
        extension = InterceptorsExtension(*assembly.chain.local_interceptors)
    except DefinitionError as error:
        raise OperatorError(str(error)) from error
    server = Server[Any](NAME, version=importlib_metadata.version(NAME))
    extension.install(server)
    return server


def unused_observers(assembly: Assembly) -> list[str]:
    """Return a line for each plugin instance whose observers will see nothing, since no chain runs here."""
    return [
        f"plugin {instance.name!r}: its observers record decisions of a chain, and a server of interceptors has none; "
        "they stay idle"
        for instance in assembly.instances
        if instance.observers
    ]


def _nothing_to_serve(assembly: Assembly) -> str:
    how = "enable a plugin with --plugin ID, or in the config"
    if not assembly.instances:
        return f"no plugin is enabled, so there is nothing to serve; {how}"
    names = ", ".join(repr(instance.name) for instance in assembly.instances)
    return f"no enabled plugin contributes interceptors ({names}), so there is nothing to serve; {how}"
