"""Listings of tools that clients can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from midspan.relay import object_or_empty

_ANY_OBJECT: Final = {"type": "object"}


def tools_of(listing: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tools of a listing that have a name."""
    listed: object = listing.get("tools")
    for tool in cast("list[object]", listed) if isinstance(listed, list) else ():
        name = object_or_empty(tool).get("name")
        if isinstance(name, str):
            yield name, cast("dict[str, Any]", tool)


def with_input_schemas(
    arrived: dict[str, Any], leaves: dict[str, Any], *, all_tools: bool = False
) -> dict[str, Any] | None:
    """Give an `inputSchema` to the tools that a mutator took it from, without which clients refuse the whole listing.

    Args:
        arrived: the listing as the server sent it.
        leaves: the listing as it leaves.
        all_tools: those too that the server itself sent without one.

    Returns:
        The listing to send, or None when it is right as it is.
    """
    if leaves is arrived and not all_tools:
        return None
    servers_own = set[str]()
    if not all_tools:
        servers_own = {name for name, tool in tools_of(arrived) if _is_bare(tool)}
    bare = {id(tool) for name, tool in tools_of(leaves) if _is_bare(tool) and name not in servers_own}
    if not bare:
        return None
    tools = [_completed(tool) if id(tool) in bare else tool for tool in leaves["tools"]]
    return {**leaves, "tools": tools}


def _is_bare(tool: dict[str, Any]) -> bool:
    return object_or_empty(tool.get("inputSchema")).get("type") != "object"


def _completed(tool: dict[str, Any]) -> dict[str, Any]:
    schema = object_or_empty(tool.get("inputSchema"))
    return {**tool, "inputSchema": _ANY_OBJECT if "type" in schema else {**schema, **_ANY_OBJECT}}
