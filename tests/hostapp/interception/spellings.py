"""A call of a tool, spelt so that two readers may differ on what it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DEEP = 5000


def plain_call(
    message_id: int, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any] | None = None
) -> bytes:
    """Return a call as everybody reads it, without white space."""
    params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
    message = {"jsonrpc": "2.0", "id": message_id, "method": "tools/call", "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


def spellings(
    tool: str, harmless: str, arguments: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
) -> Mapping[str, bytes]:
    """Return bodies of messages, each in one line, that some reader takes for a call of a tool.

    Args:
        tool: the tool that is called.
        harmless: another one.
        arguments: of the call.
        meta: `_meta` of the call.
    """
    call = plain_call(7, tool, {"a": 1, **(arguments or {})}, meta)
    other = plain_call(8, harmless, {"a": 1, **(arguments or {})}, meta)
    name, value = b'"name":"%s"' % tool.encode(), b'"a":1'
    safe_name = b'"name":"%s"' % harmless.encode()
    params = call[call.index(b'{"name"') : -1]
    safe_params = other[other.index(b'{"name"') : -1]

    def named(text: bytes) -> bytes:
        return call.replace(name, text)

    def with_value(text: bytes) -> bytes:
        return call.replace(value, text)

    return {
        "as it is": call,
        "batch": b"[" + call + b"]",
        "batch behind a good call": b"[" + other + b"," + call + b"]",
        "batch in a batch": b"[[" + call + b"]]",
        "two names": named(name + b"," + safe_name),
        "two names, the other first": named(safe_name + b"," + name),
        "two names, one escaped": named(safe_name + b"," + name.replace(b"name", b"n\\u0061me")),
        "two params": call[:-1] + b',"params":' + safe_params + b"}",
        "two params, the other first": call.replace(b'"params"', b'"params":' + safe_params + b',"params"'),
        "two methods": call[:-1] + b',"method":"ping"}',
        "two methods, the other first": call.replace(b'"method"', b'"method":"ping","method"'),
        "two ids": call.replace(b'"id":7', b'"id":7,"id":8'),
        "escaped method": call.replace(b"tools/call", b"tools\\/call"),
        "escaped name": named(b'"name":"\\u%04x%s"' % (ord(tool[0]), tool[1:].encode())),
        "NaN": with_value(b'"a":NaN'),
        "Infinity": with_value(b'"a":-Infinity'),
        "overflow": with_value(b'"a":1e999'),
        "nested arrays": with_value(b'"a":' + b"[" * DEEP + b"]" * DEEP),
        "nested objects": with_value(b'"a":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP),
        "nested in front": call.replace(b'"params"', b'"x":' + b"[" * DEEP + b"]" * DEEP + b',"params"'),
        "NAME": named(name.upper().replace(tool.upper().encode(), tool.encode())),
        "name and Name": named(safe_name + b"," + name.replace(b"name", b"Name")),
        "Params": call.replace(b'"params"', b'"Params"'),
        "params and PARAMS": call[:-1].replace(params, safe_params) + b',"PARAMS":' + params + b"}",
        "Method": call.replace(b'"method"', b'"Method"'),
        "method and mEthod": call.replace(b'"method"', b'"method":"ping","mEthod"'),
        "ſ for s": call.replace(b'"params"', '"paramſ"'.encode()),
        "BOM": b"\xef\xbb\xbf" + call,
        "BOM inside": call.replace(b'"method"', b'\xef\xbb\xbf"method"'),
        "brace behind": call + b"}",
        "words behind": call + b" and so on",
        "NUL behind": call + b"\0",
        "another message behind": other + call,
        "comment": call.replace(b'"params"', b'/* "params": {} */"params"'),
        "comma at the end": call[:-1] + b",}",
        "single quotes": call.replace(b'"', b"'"),
        "UTF-16": call.decode().encode("utf-16"),
        "UTF-16LE": call.decode().encode("utf-16-le"),
        "UTF-16BE": call.decode().encode("utf-16-be"),
        "UTF-32": call.decode().encode("utf-32"),
        "UTF-8 that is none": with_value(b'"a":"\xff\xfe"'),
        "overlong UTF-8": named(b'"name":"%s"' % bytes([0xC1, 0x80 | (ord(tool[0]) & 0x3F)]) + tool[1:].encode()),
        "surrogates in UTF-8": with_value(b'"a":"\xed\xa0\xbd\xed\xb8\x80"'),
        "control character": with_value(b'"a":"\x01"'),
        "in a carriage return": call.replace(b'"params"', b'\r"params"').replace(b'"a":1', b'"a":"\r"'),
        "params in a text": call.replace(params, b'"' + params.replace(b'"', b'\\"') + b'"'),
        "params in a list": call.replace(params, b"[" + params + b"]"),
        "and a result": call[:-1] + b',"result":{}}',
        "id null": call.replace(b'"id":7', b'"id":null'),
        "id in a list": call.replace(b'"id":7', b'"id":[7]'),
        "notification": call.replace(b'"id":7,', b""),
        "notification with two names": named(safe_name + b"," + name).replace(b'"id":7,', b""),
    }
