"""To see before it runs: which chain stands before which server, and where each of its values comes from."""

from midspan.sight._events import Flow, flows_of, sentence, shown_events
from midspan.sight._origins import Origin, Value, value_of
from midspan.sight._places import place_text, shown_path
from midspan.sight._servers import OTHER, ServerGroup, groups_of, instance_place, left_out, remote_servers
from midspan.sight._views import ChainView, EntryView, ObserverView, PlanView, chain_view, entry_view

__all__ = [
    "OTHER",
    "ChainView",
    "EntryView",
    "Flow",
    "ObserverView",
    "Origin",
    "PlanView",
    "ServerGroup",
    "Value",
    "chain_view",
    "entry_view",
    "flows_of",
    "groups_of",
    "instance_place",
    "left_out",
    "place_text",
    "remote_servers",
    "sentence",
    "shown_events",
    "shown_path",
    "value_of",
]
