"""What a client was shown of a server's tools."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, cast

from midspan.interception._deciding import Deciding
from midspan.interception._listings import tools_of
from midspan.interception._output_check import OutputCheck
from midspan.relay import write
from midspan_sdk.events import TOOLS_CALL

logger = logging.getLogger("midspan.gateway")

_MOST_BYTES: Final = 8 * 1024 * 1024
_MOST_TOOLS: Final = 10_000
_MOST_LISTINGS: Final = 4
"""Listings under way at once: clients turn pages, and may stop in the middle."""
_LONGEST_CURSOR: Final = 4096


class _Tool:
    """One tool.

    Attributes:
        listed: the tool as the client saw it.
        size: about how many bytes.
        mark: tells it from every other version.
        check: for its results, or None when it promises nothing of them.
    """

    __slots__ = ("check", "listed", "mark", "size")

    def __init__(self, listed: dict[str, Any], size: int, mark: bytes, *, altered: bool) -> None:
        self.listed = listed
        self.size = size
        self.mark = mark
        schema: object = listed.get("outputSchema")
        self.check = OutputCheck(cast("dict[str, Any]", schema), altered=altered) if isinstance(schema, dict) else None


class _Listing(NamedTuple):
    """A listing of which there are more pages.

    Attributes:
        number: counts listings by their beginning.
        names: the tools so far.
    """

    number: int
    names: frozenset[str]


class LearntTools:
    """The tools of one server, learnt from the listings that reached a client.

    Each page adds its tools at once. What a listing does not have any more goes at its end: at a last page that follows
    a first one. Until then, and when the server only says that its list has changed, the old ones stay.

    Args:
        resized: told by how many bytes it grew or shrank.

    Attributes:
        listed: the tools by name, for handlers; another object after each change.
        size: about how many bytes they take as JSON.
    """

    def __init__(self, resized: Callable[[int], None] | None = None) -> None:
        self.listed: Mapping[str, Mapping[str, Any]] = {}
        self.size = 0
        self._tools: dict[str, _Tool] = {}
        self._under_way: dict[str, _Listing] = {}
        self._listings = 0
        self._resized = resized

    def detach(self) -> None:
        """Tell nobody of its size any more."""
        self._resized = None

    def check(self, name: object) -> OutputCheck | None:
        """Return the check for the results of a tool, or None when it promises nothing, or is not known."""
        tool = self._tools.get(name) if isinstance(name, str) else None
        return tool.check if tool is not None else None

    def learn(self, cursor: object, arrived: dict[str, Any], leaves: dict[str, Any]) -> None:
        """Learn from a page that goes to the client.

        Args:
            cursor: of the request; None for a first page.
            arrived: the page as it came, of which the same object leaves when nothing changed it.
            leaves: the page as it leaves.
        """
        found = self._read(arrived, leaves)
        tools = self._pruned(cursor, leaves.get("nextCursor"), found.keys())
        size = sum(tool.size for tool in tools.values())
        left_out = 0
        for name, tool in found.items():
            old = tools.pop(name, None)
            size -= old.size if old is not None else 0
            if len(tools) < _MOST_TOOLS and size + tool.size <= _MOST_BYTES:
                same = old is not None and old.mark == tool.mark
                tools[name] = old if same else tool  # pyright: ignore[reportArgumentType] - not None when it is the same
                size += tool.size
            else:
                left_out += 1
        if left_out:
            logger.warning("%d tools of a listing are not remembered: it is too large", left_out)
        self._tools = tools
        self.listed = {name: tool.listed for name, tool in tools.items()}
        grown, self.size = size - self.size, size
        if self._resized is not None and grown:
            self._resized(grown)

    def _read(self, arrived: dict[str, Any], leaves: dict[str, Any]) -> dict[str, _Tool]:
        before = {} if leaves is arrived else dict(tools_of(arrived))
        found: dict[str, _Tool] = {}
        for name, tool in tools_of(leaves):  # of several with one name the last counts, as for clients
            text = write(tool)
            altered = leaves is not arrived and _promise(before.get(name)) != _promise(tool)
            mark = hashlib.blake2b(text + b"01"[altered : altered + 1], digest_size=16).digest()
            found[name] = _Tool(tool, len(text), mark, altered=altered)
        return found

    def _pruned(self, cursor: object, following: object, page: AbstractSet[str]) -> dict[str, _Tool]:
        """Return the known tools without those that a listing which ends with this page does not have any more."""
        listing = self._listing(cursor)
        if listing is None or len(listing.names) + len(page) > _MOST_TOOLS:
            return dict(self._tools)
        names = listing.names.union(page)
        if following is None:
            # What began earlier is out of date, or was given up; what began later has shown tools that count.
            later = {key: one for key, one in self._under_way.items() if one.number > listing.number}
            self._under_way = later
            names = names.union(*(one.names for one in later.values()))
            return {name: tool for name, tool in self._tools.items() if name in names}
        if isinstance(following, str) and len(following) <= _LONGEST_CURSOR:
            while len(self._under_way) >= _MOST_LISTINGS:
                del self._under_way[next(iter(self._under_way))]
            self._under_way[following] = _Listing(listing.number, names)
        return dict(self._tools)

    def _listing(self, cursor: object) -> _Listing | None:
        if cursor is None:
            self._listings += 1
            return _Listing(self._listings, frozenset())
        return self._under_way.pop(cursor, None) if isinstance(cursor, str) else None


def learns_tools(chain: Deciding) -> bool:
    """Tell whether a chain makes it worth while to learn: for handlers that take `tools`, or to check results."""
    return (
        "tools" in chain.needs
        or chain.may_change(TOOLS_CALL, "response", "receiving")
        or chain.may_change(TOOLS_CALL, "request", "sending")
    )


def _promise(tool: dict[str, Any] | None) -> bytes:
    return write(tool.get("outputSchema")) if tool is not None else b""
