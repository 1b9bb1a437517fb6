"""Interception: what the relay's messages mean to a chain, and what its verdicts mean to the relay."""

from midspan.interception._asking import ASK_TIMEOUT, Asking
from midspan.interception._context import PROTOCOL_VERSION_KEY, ConnectionContext, local_flow, local_user
from midspan.interception._deciding import Deciding, Finish, acts, checked_events, narrowed
from midspan.interception._denials import VERDICT_KEY, DenialDetail, DenialForm, Denials, payload_of_answer
from midspan.interception._judge import ANSWER_KEY, ChainJudge
from midspan.interception._output_check import OUTPUT_RULE
from midspan.interception._regime import Hold, Regime, Regimes, Retired
from midspan.interception._tools import LearntTools, learns_tools

__all__ = [
    "ANSWER_KEY",
    "ASK_TIMEOUT",
    "OUTPUT_RULE",
    "PROTOCOL_VERSION_KEY",
    "VERDICT_KEY",
    "Asking",
    "ChainJudge",
    "ConnectionContext",
    "Deciding",
    "DenialDetail",
    "DenialForm",
    "Denials",
    "Finish",
    "Hold",
    "LearntTools",
    "Regime",
    "Regimes",
    "Retired",
    "acts",
    "checked_events",
    "learns_tools",
    "local_flow",
    "local_user",
    "narrowed",
    "payload_of_answer",
]
