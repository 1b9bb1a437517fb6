"""Interception: what the relay's messages mean to a chain, and what its verdicts mean to the relay."""

from midspan.interception._context import PROTOCOL_VERSION_KEY, ConnectionContext, local_flow, local_user
from midspan.interception._deciding import Deciding, acts, narrowed
from midspan.interception._denials import VERDICT_KEY, DenialDetail, DenialForm, Denials, payload_of_answer
from midspan.interception._judge import ANSWER_KEY, ChainJudge

__all__ = [
    "ANSWER_KEY",
    "PROTOCOL_VERSION_KEY",
    "VERDICT_KEY",
    "ChainJudge",
    "ConnectionContext",
    "Deciding",
    "DenialDetail",
    "DenialForm",
    "Denials",
    "acts",
    "local_flow",
    "local_user",
    "narrowed",
    "payload_of_answer",
]
