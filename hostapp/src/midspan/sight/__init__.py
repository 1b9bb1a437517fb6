"""Sight before it runs: which chain stands before which server, where its values come from, what it does to a message.

`Explainer` and what belongs to it are imported when they are first used: they need the gateway's interception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midspan._lazy import lazily
from midspan.sight._changes import ABSENT, Change, changes
from midspan.sight._events import ANY_OTHER, Flow, flows_of, sentence
from midspan.sight._origins import Origin, Value
from midspan.sight._places import place_text, shown_path
from midspan.sight._servers import OTHER, ServerGroup, groups_of
from midspan.sight._views import ChainView, EntryView, ObserverView, PlanView, chain_view, entry_view

if TYPE_CHECKING:
    from midspan.sight._explain import Explained, ExplainedStep, Explainer, Message, Setting, usual_flow

__all__ = [
    "ABSENT",
    "ANY_OTHER",
    "OTHER",
    "ChainView",
    "Change",
    "EntryView",
    "Explained",
    "ExplainedStep",
    "Explainer",
    "Flow",
    "Message",
    "ObserverView",
    "Origin",
    "PlanView",
    "ServerGroup",
    "Setting",
    "Value",
    "chain_view",
    "changes",
    "entry_view",
    "flows_of",
    "groups_of",
    "place_text",
    "sentence",
    "shown_path",
    "usual_flow",
]

_HEAVY = {
    "Explained": "_explain",
    "ExplainedStep": "_explain",
    "Explainer": "_explain",
    "Message": "_explain",
    "Setting": "_explain",
    "usual_flow": "_explain",
}

__getattr__ = lazily(__name__, _HEAVY)
