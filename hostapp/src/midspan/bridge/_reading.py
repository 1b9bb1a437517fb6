"""Reading what clients post, and checking it before a server gets it."""

from __future__ import annotations

from typing import Final

from midspan.bridge._text import one_line
from midspan.http import (
    HEADER_MISMATCH,
    METHOD_HEADER,
    NAME_HEADER,
    TARGETS,
    Client,
    DisagreementError,
    Headers,
    RefusedError,
    check,
    is_identity,
    media_type,
    value,
    values,
)
from midspan.interception import PROTOCOL_VERSION_KEY
from midspan.relay import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    JSONFaultError,
    Message,
    classify,
    object_or_empty,
    read,
)
from midspan_sdk.events import INITIALIZE

_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_STATUS: Final = {
    -32700: 400,
    INVALID_REQUEST: 400,
    METHOD_NOT_FOUND: 404,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    -32021: 400,
    -32022: 400,
}
"""HTTP statuses that 2026-07-28 gives to errors; others are answered with 200."""


def read_message(client: Client, body: bytes) -> tuple[Message, bytes]:
    """Read a body. What two readers may take for different messages goes no further, whoever judges it.

    Returns:
        The message, and its text as one line.

    Raises:
        RefusedError: it is no message.
    """
    types = values(client.headers, b"content-type")
    if len(types) != 1 or media_type(types[0]) != "application/json":
        raise RefusedError(415, INVALID_REQUEST, "the body must be application/json")
    if not is_identity(client.headers):
        raise RefusedError(415, INVALID_REQUEST, "an encoded body cannot be read; send it without")
    try:
        document = read(body)
        if document.duplicates:
            raise JSONFaultError(document.fault or "ambiguous", INVALID_REQUEST)
        return classify(document.value), one_line(body)
    except JSONFaultError as fault:
        raise RefusedError(400, fault.code, f"refused the message: {fault.reason}") from None


def check_alone(headers: Headers, message: Message) -> None:
    """Check what a server of 2026-07-28 checks of a message before anything else.

    Here it also keeps the connection that several clients share in its era: the first request a server gets decides.

    Raises:
        RefusedError: the server would not take it.
    """
    params = message.params_or_empty()
    meta = object_or_empty(params.get("_meta"))
    if message.method == INITIALIZE:
        raise RefusedError(404, METHOD_NOT_FOUND, "this revision has no initialize")
    if message.kind == "request":
        missing = [key for key in (PROTOCOL_VERSION_KEY, _CAPABILITIES_KEY) if key not in meta]
        if missing:
            raise RefusedError(400, INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}")
        if not isinstance(meta[PROTOCOL_VERSION_KEY], str):
            raise RefusedError(400, INVALID_PARAMS, f"{PROTOCOL_VERSION_KEY} in params._meta is no string")
    try:
        if value(headers, METHOD_HEADER) is None and message.kind == "request":
            raise DisagreementError("the header mcp-method is missing")
        if TARGETS.get(message.method) in params and value(headers, NAME_HEADER) is None:
            raise DisagreementError("the header mcp-name is missing")
        check(headers, message.envelope)
    except DisagreementError as error:
        raise RefusedError(400, HEADER_MISMATCH, str(error)) from None


def status_of(answer: bytes) -> int:
    """Return the HTTP status that 2026-07-28 gives to an answer."""
    code: object = error_of(answer).get("code")
    return _STATUS.get(code, 200) if isinstance(code, int) else 200


def error_of(answer: bytes) -> dict[str, object]:
    """Return the error in an answer; empty when it has none."""
    if b'"error"' not in answer:
        return {}
    try:
        return object_or_empty(object_or_empty(read(answer).value).get("error"))
    except JSONFaultError:
        return {}
