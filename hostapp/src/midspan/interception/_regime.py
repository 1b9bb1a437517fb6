"""How messages are decided, and the exchange of that while messages pass.

An exchange begins under the regime that is in force and stays under it to its end, so that nothing is judged by a
mixture of two chains. A regime that another has replaced is over when its last exchange is.
"""

# pyright: reportPrivateUsage=false
# The classes of this module know each other.

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from midspan.interception._asking import Asking
from midspan.interception._deciding import Deciding, acts
from midspan.interception._denials import Denials
from midspan.interception._rounds import Rounds

if TYPE_CHECKING:
    from midspan.exposing import Exposure


class Regime:
    """A chain, and what goes with it.

    Args:
        chain: decides.
        denials: what the sender of a blocked message is told.
        coerce_input_schemas: give an `inputSchema` also to tools that the server itself listed without one.
        exposure: serves the chain's interceptors to clients.
        asking: how users are asked; shared by all judges of a gateway.

    Attributes:
        chain, denials, exposure, asking: as above.
        coerce: as `coerce_input_schemas`.
        rounds: judges by the chain what is in other messages.
        over: whether another regime has replaced it, and the last of its exchanges is over.
    """

    __slots__ = (
        "_retired",
        "_swappable",
        "_under_way",
        "asking",
        "chain",
        "coerce",
        "denials",
        "exposure",
        "over",
        "rounds",
    )

    def __init__(
        self,
        chain: Deciding,
        denials: Denials | None = None,
        *,
        coerce_input_schemas: bool = False,
        exposure: Exposure | None = None,
        asking: Asking | None = None,
    ) -> None:
        self.chain = chain
        self.denials = denials or Denials()
        self.coerce = coerce_input_schemas
        self.exposure = exposure
        self.asking = asking or Asking()
        self.rounds = Rounds(chain)
        self.over = False
        self._swappable = False
        self._under_way = 0
        self._retired: Retired | None = None

    @property
    def acts(self) -> bool:
        """Whether there is anything that could act on a message, observe it, or answer it."""
        return self.coerce or self.exposure is not None or acts(self.chain)

    @property
    def relays(self) -> bool:
        """Whether nothing acts where something else may later: messages are followed, and what cannot be read passes.

        Where that never changes, a gateway whose chain does not act has no judge at all.
        """
        return self._swappable and not self.acts

    def could_act(self, method: str) -> bool:
        """Tell whether anything could act on a client's request or notification of this method, or on its answer."""
        if self.exposure is not None and self.exposure.serves(method):
            return True
        return self.chain.concerns(method, "request", "sending") or self.chain.concerns(method, "response", "receiving")

    def reads_errors(self, method: str) -> bool:
        """Tell whether anything could act on an error that answers a client's request of this method."""
        return self.chain.concerns(method, "response", "receiving", error=True)

    @property
    def asks(self) -> bool:
        """Whether its handlers ask the user."""
        return "ask" in self.chain.needs

    @property
    def under_way(self) -> int:
        """How many exchanges are under way."""
        return self._under_way

    def _retire(self) -> Retired:
        self._retired = Retired(self)
        if not self._under_way:
            self._retired._end()
        return self._retired


class Hold:
    """Keeps a regime from being over.

    Args:
        regime: which.

    Attributes:
        regime: as above.
        holds: whether it still does.
    """

    # On the path of each message, so it reaches into the regime itself.
    __slots__ = ("holds", "regime")

    def __init__(self, regime: Regime) -> None:
        self.regime = regime
        self.holds = True
        regime._under_way += 1

    def release(self) -> bool:
        """Let go of it, unless that is done. Return whether it was not."""
        if not self.holds:
            return False
        self.holds = False
        regime = self.regime
        regime._under_way -= 1
        if regime._retired is not None and not regime._under_way:
            regime._retired._end()
        return True


class Retired:
    """A chain that another has replaced. Whoever entered it leaves it when it is over.

    Attributes:
        over: whether the last of its exchanges is over; nothing uses it any more.
        under_way: how many are under way.
    """

    def __init__(self, regime: Regime) -> None:
        self._regime = regime
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        return self._regime.over

    @property
    def under_way(self) -> int:
        return self._regime.under_way

    def _end(self) -> None:
        self._regime.over = True
        self._over.set()

    async def wait(self) -> None:
        """Wait until it is over."""
        await self._over.wait()


class Regimes:
    """The regime that is in force, and those before it that are not over; one for all judges of a gateway.

    Args:
        first: in force until another replaces it.
        swappable: whether another may. Then what an exchange may need under a later regime is always kept: the tools
            of listings, the sealed rounds of questions; and where nothing acts, messages are followed all the same.

    Attributes:
        current: the regime in force.
        swappable: as above.
    """

    def __init__(self, first: Regime, *, swappable: bool = False) -> None:
        self.current = first
        self.swappable = swappable
        self._earlier: list[Regime] = []
        first._swappable = swappable

    @property
    def may_expose(self) -> bool:
        """Whether interceptors are served to clients, or may be later."""
        return self.swappable or self.current.exposure is not None

    def replace(self, regime: Regime) -> Retired:
        """Put a regime in force for all that begins from now on.

        Raises:
            RuntimeError: these are not swappable.
        """
        if not self.swappable:
            raise RuntimeError("the chain of this gateway cannot be replaced; make it with swappable=True")
        regime._swappable = True
        before, self.current = self.current, regime
        self._earlier = [earlier for earlier in (*self._earlier, before) if not earlier.over]
        return before._retire()

    def end_session(self, session_id: str) -> None:
        """Forget what interceptors keep for a session."""
        self.current.chain.end_session(session_id)
        for earlier in self._earlier:
            earlier.chain.end_session(session_id)
