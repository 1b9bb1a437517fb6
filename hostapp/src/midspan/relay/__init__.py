"""The relay: carries messages between a client and a server without changing a byte of its own accord.

It knows transports, lines and JSON-RPC envelopes. It knows nothing of interceptors, config or the command line: what
may pass, a `Judge` decides.
"""

from midspan.relay._channel import Backend, ConnectError, Connection, LineQueue, LineSource, LineWriter
from midspan.relay._child import SpawnError, kill_servers
from midspan.relay._command import CommandBackend
from midspan.relay._failed_start import answer_failed_start
from midspan.relay._json import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Document,
    JSONFaultError,
    read,
    write,
)
from midspan.relay._lines import MAX_LINE, OversizedLine, open_reader, open_writer
from midspan.relay._messages import (
    CANCELLED,
    Message,
    MessageId,
    as_id,
    check_spelling,
    classify,
    error_message,
    id_of,
    object_or_empty,
)
from midspan.relay._outline import EDGE, Outline, outline_of, outline_of_text, outlines_of_value
from midspan.relay._relay import Action, Deferred, Judge, PassAll, Side, relay
from midspan.relay._run import run_stdio
from midspan.relay._stdio import claim_standard_streams
from midspan.relay._supervised import NEVER, RestartPolicy, RestartWhen, Supervised
from midspan.relay._voice import Aside, Say, Voice

__all__ = [
    "CANCELLED",
    "CONNECTION_CLOSED",
    "EDGE",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "MAX_LINE",
    "METHOD_NOT_FOUND",
    "NEVER",
    "PARSE_ERROR",
    "Action",
    "Aside",
    "Backend",
    "CommandBackend",
    "ConnectError",
    "Connection",
    "Deferred",
    "Document",
    "JSONFaultError",
    "Judge",
    "LineQueue",
    "LineSource",
    "LineWriter",
    "Message",
    "MessageId",
    "Outline",
    "OversizedLine",
    "PassAll",
    "RestartPolicy",
    "RestartWhen",
    "Say",
    "Side",
    "SpawnError",
    "Supervised",
    "Voice",
    "answer_failed_start",
    "as_id",
    "check_spelling",
    "claim_standard_streams",
    "classify",
    "error_message",
    "id_of",
    "kill_servers",
    "object_or_empty",
    "open_reader",
    "open_writer",
    "outline_of",
    "outline_of_text",
    "outlines_of_value",
    "read",
    "relay",
    "run_stdio",
    "write",
]
