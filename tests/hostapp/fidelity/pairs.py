"""Which connections every row is tried on.

A pair of transports is switched on by its line in `PAIRS`; nothing else has to change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import pytest

from .eras import Era

Front = Literal["stdio", "http"]
Back = Literal["stdio", "http", "sse"]
Form = Literal["json", "stream", "single bytes"]
"""How a server answers over streamable HTTP; elsewhere only single bytes mean anything."""


@dataclass(frozen=True)
class Pair:
    """A gateway's two transports."""

    front: Front
    back: Back

    def __str__(self) -> str:
        return f"{self.front} to {self.back}"


PAIRS: Final[tuple[Pair, ...]] = (
    Pair("stdio", "stdio"),
    Pair("http", "http"),
    Pair("stdio", "http"),
    Pair("stdio", "sse"),
    Pair("http", "stdio"),
    Pair("http", "sse"),
)
"""The pairs that the gateway can do."""

CARRIERS: Final[tuple[Back, ...]] = ("stdio", "http", "sse")
"""What a client can speak to the server without a gateway; what a row demands has to hold there first."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One connection that a row is tried on.

    Attributes:
        era: how both sides speak.
        pair: the gateway's transports, or None without a gateway.
        back: what the server speaks.
        judged: whether a validator and a mutator look at everything, and change nothing.
    """

    era: Era
    pair: Pair | None
    back: Back
    judged: bool = False

    def __str__(self) -> str:
        way = f"{self.back} directly" if self.pair is None else str(self.pair)
        return f"{way}, {self.era.name.lower()}{', judged' if self.judged else ''}"

    @property
    def front(self) -> Front | Back:
        """What the client speaks."""
        return self.back if self.pair is None else self.pair.front

    @property
    def renames(self) -> bool:
        """Whether the gateway has to give requests other ids and tokens on the way to the server.

        Clients that know nothing of each other share the one stream of such a server.
        """
        return self.front == "http" and self.back != "http" and self.era is Era.STATELESS


def cases(*eras: Era, where: Callable[[Case], bool] = lambda case: True) -> list[Case]:
    """Return all connections of these eras, or of both."""
    found = [
        case
        for era in eras or tuple(Era)
        for case in (
            *(Case(era=era, pair=None, back=back) for back in CARRIERS),
            *(Case(era=era, pair=pair, back=pair.back, judged=judged) for pair in PAIRS for judged in (False, True)),
        )
    ]
    return [case for case in found if where(case)]


def over(*eras: Era, where: Callable[[Case], bool] = lambda case: True) -> pytest.MarkDecorator:
    """Try a test on all connections of these eras, or of both."""
    return pytest.mark.parametrize("case", cases(*eras, where=where), ids=str)


def _forms(case: Case) -> tuple[Form, ...]:
    return ("json", "stream") if case.back == "http" else ("json",)


everywhere: Final = over()
with_sessions: Final = over(Era.HANDSHAKE)
without_sessions: Final = over(Era.STATELESS)


in_every_form: Final = pytest.mark.parametrize(
    ("case", "form"),
    [pytest.param(case, form, id=f"{case}, {form}") for case in cases() for form in _forms(case)],
)
