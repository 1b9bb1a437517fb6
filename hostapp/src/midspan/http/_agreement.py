"""Headers that repeat what a message says, and have to agree with it.

Since 2026-07-28 a request's method, target and some arguments stand in its headers too, so that what lies between
client and server can act without reading the body. The gateway judges the body. So a header that says otherwise stops
the request, and headers follow a body that an interceptor changed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from midspan.http._conversations import VERSION_HEADER
from midspan.http._headers import Headers, values
from midspan.interception import PROTOCOL_VERSION_KEY
from midspan.relay import object_or_empty
from midspan_sdk.events import PROMPTS_GET, RESOURCES_READ, TOOLS_CALL

HEADER_MISMATCH: Final = -32020

METHOD_HEADER: Final = b"mcp-method"
NAME_HEADER: Final = b"mcp-name"
PARAM_PREFIX: Final = b"mcp-param-"
TARGETS: Final = {TOOLS_CALL: "name", PROMPTS_GET: "name", RESOURCES_READ: "uri"}

_ENCODED: Final = re.compile(rb"=\?base64\?(.*)\?=", re.DOTALL)
_PLAIN: Final = re.compile(r"[\x20-\x7e]*")
_DECIMAL: Final = re.compile(r"(-?[0-9]{1,400})(?:\.0{1,400})?")

Path = tuple[str, ...]
Scalar = str | int | float


class DisagreementError(Exception):
    """A header and the body say different things. The text names the header."""


def repeats_body(headers: Headers) -> bool:
    """Tell whether any header repeats something of the body."""
    return any(
        name in (METHOD_HEADER, NAME_HEADER, VERSION_HEADER) or name.startswith(PARAM_PREFIX) for name, _ in headers
    )


def check(headers: Headers, message: Mapping[str, Any]) -> None:
    """Check that the headers agree with the message.

    A header that is missing is the server's to judge.

    Raises:
        DisagreementError: one of them says otherwise, or is there twice.
    """
    params = object_or_empty(message.get("params"))
    meta = object_or_empty(params.get("_meta"))
    _check_one(headers, VERSION_HEADER, meta.get(PROTOCOL_VERSION_KEY), required=PROTOCOL_VERSION_KEY in meta)
    _check_one(headers, METHOD_HEADER, message.get("method"))
    target = TARGETS.get(str(message.get("method")))
    if target is not None:
        _check_one(headers, NAME_HEADER, params.get(target), required=target in params)
    elif (name := _single(headers, NAME_HEADER)) is not None and name not in params.values():
        raise _differs(NAME_HEADER)
    repeated = {name for name, _ in headers if name.startswith(PARAM_PREFIX)}
    if repeated:
        arguments = {_comparable(scalar) for _, scalar in _scalars(_arguments(message))}
        for header in repeated:
            said = _single(headers, header)
            if said not in arguments and _comparable_text(said or "") not in arguments:
                raise _differs(header)


def _check_one(headers: Headers, header: bytes, said: object, *, required: bool = True) -> None:
    found = _single(headers, header)
    if found is not None and required and found != said:
        raise _differs(header)


def _differs(header: bytes) -> DisagreementError:
    return DisagreementError(f"the header {header.decode('latin-1')} does not say what the body says")


def follow(headers: Headers, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """Return headers that agree with a message that was changed.

    Args:
        headers: agree with the message as it came.
        before: that message.
        after: the message as it leaves.

    Raises:
        DisagreementError: it is not certain which argument a header repeats, and its candidates differ now.
    """
    written: list[tuple[bytes, bytes]] = []
    target = TARGETS.get(str(after.get("method")))
    old = dict(_scalars(_arguments(before)))
    new = dict(_scalars(_arguments(after)))
    for name, value in headers:
        if name == NAME_HEADER and target is not None:
            now: object = object_or_empty(after.get("params")).get(target)
            if isinstance(now, str):
                written.append((name, encode(now)))
        elif name.startswith(PARAM_PREFIX):
            follower = _followed(name, value, old, new)
            if follower is not None:
                unchanged = same(follower, decode(value) or "")
                written.append((name, value if unchanged else encode(rendered(follower))))
        else:
            written.append((name, value))
    return written


def _followed(name: bytes, value: bytes, old: Mapping[Path, Scalar], new: Mapping[Path, Scalar]) -> Scalar | None:
    """Return what the argument that a header repeats is now, or None when it is gone."""
    said = decode(value) or ""
    candidates = [path for path, scalar in old.items() if same(scalar, said)]
    token = name.removeprefix(PARAM_PREFIX).decode("latin-1").lower()
    named = [path for path in candidates if path[-1].lower() == token]
    now = {path: new.get(path) for path in (named or candidates)}
    if len({(type(scalar), scalar) for scalar in now.values()}) > 1:
        raise DisagreementError(f"the header {name.decode('latin-1')} could repeat several arguments, which differ now")
    return next(iter(now.values()), None)


def _single(headers: Headers, name: bytes) -> str | None:
    found = values(headers, name)
    if len(found) > 1:
        raise DisagreementError(f"the header {name.decode('latin-1')} is there more than once")
    if not found:
        return None
    # The two others are plain in every revision; decoding them would let two readers differ.
    decoded = found[0].decode("latin-1") if name in (METHOD_HEADER, VERSION_HEADER) else decode(found[0])
    if decoded is None:
        raise DisagreementError(f"the header {name.decode('latin-1')} cannot be decoded")
    return decoded


def decode(value: bytes) -> str | None:
    """Return what a header says, or None when it cannot be decoded."""
    encoded = _ENCODED.fullmatch(value)
    try:
        if encoded is None:
            return value.decode("utf-8")
        decoded = base64.b64decode(encoded[1], validate=True)
        # Two texts for one value would let two readers differ.
        return decoded.decode("utf-8") if base64.b64encode(decoded) == encoded[1] else None
    except (UnicodeDecodeError, binascii.Error):
        return None


def encode(value: str) -> bytes:
    """Return a value as it stands in a header: plain where a header can carry it, else in base64 between marks.

    Raises:
        DisagreementError: it is no Unicode text, so no header can carry it.
    """
    try:
        raw = value.encode("utf-8")
    except UnicodeEncodeError:
        raise DisagreementError("a header cannot carry a lone surrogate") from None
    if _PLAIN.fullmatch(value) and value == value.strip() and not _ENCODED.fullmatch(raw):
        return raw
    return b"=?base64?" + base64.b64encode(raw) + b"?="


def _arguments(message: Mapping[str, Any]) -> dict[str, Any]:
    return object_or_empty(object_or_empty(message.get("params")).get("arguments"))


def _scalars(arguments: dict[str, Any]) -> Iterator[tuple[Path, Scalar]]:
    """Yield every string, number and boolean that only objects lead to, with its path."""
    stack: list[tuple[Path, Any]] = [((), arguments)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, dict):
            stack.extend(((*path, str(key)), value) for key, value in node.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - JSON
        elif path and isinstance(node, str | int | float):
            yield path, node


def rendered(scalar: Scalar) -> str:
    """Return a value as a header says it."""
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return str(scalar)


def _comparable(scalar: Scalar) -> str | int:
    """Return what stands for a scalar when it is compared with a header: whole numbers compare as numbers."""
    if isinstance(scalar, bool | str):
        return rendered(scalar)
    return int(scalar) if isinstance(scalar, int) or scalar.is_integer() else rendered(scalar)


def _comparable_text(said: str) -> str | int:
    number = _DECIMAL.fullmatch(said)
    return int(number[1]) if number is not None else said


def same(scalar: Scalar, said: str) -> bool:
    """Tell whether a header that says this repeats a value; whole numbers compare as numbers."""
    return _comparable(scalar) in (said, _comparable_text(said))
