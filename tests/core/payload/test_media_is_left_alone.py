"""Base64 media and `data:` URIs are no text."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from midspan_sdk.payload import edit_text, find_text

PICTURE = base64.b64encode(bytes(range(256)) * 2).decode()


def shown(payload: dict[str, Any]) -> list[str]:
    return [text.value for text in find_text(payload, {"value"})]


@pytest.mark.parametrize(
    "content",
    [
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        {"type": "audio", "data": PICTURE, "mimeType": "audio/wav"},
        {"uri": "file:///x", "blob": PICTURE},
        {"type": "base64", "media_type": "image/png", "data": PICTURE},
        {"type": "image", "data": "\r\n".join(PICTURE[i : i + 76] for i in range(0, len(PICTURE), 76))},
    ],
)
def test_base64_media_is_not_shown(content: dict[str, str]):
    texts = shown({"content": [content]})
    assert not any(PICTURE[:40] in text for text in texts)
    assert edit_text({"content": [content]}, lambda text: "x" if len(text.value) > 60 else None) is None


@pytest.mark.parametrize(
    "content",
    [
        {"type": "image", "data": "a secret in words, " * 4},
        {"type": "image", "data": "SHORTKEY"},
        {"type": "text", "data": PICTURE},
        {"uri": "file:///x", "blob": "no base64 at all, but long enough to be a picture"},
    ],
)
def test_text_does_not_pass_for_media(content: dict[str, str]):
    hidden = content.get("data") or content["blob"]
    assert hidden in shown({"content": [content]})


@pytest.mark.parametrize("head", ["data:image/png;base64,", "DATA:;BASE64,", "data:text/plain;charset=utf-8;base64,"])
def test_a_data_uri_is_not_shown(head: str):
    assert shown({"icons": [{"src": head + PICTURE}]}) == []


def test_the_text_around_data_uris_is_shown_and_edited_in_pieces():
    uri = f"data:image/png;base64,{PICTURE}"
    payload = {"text": f"before {uri} between {uri}"}
    assert shown(payload) == ["before ", " between "]
    edited = edit_text(payload, lambda text: text.value.upper() if text.part == "value" else None)
    assert edited == {"text": f"BEFORE {uri} BETWEEN {uri}"}


@pytest.mark.parametrize(
    "text",
    ["data:text/plain,in plain words", f"data:text/plain;base64,{PICTURE}_and-more", "data:image/png;base64,SHORT"],
)
def test_what_only_looks_like_a_data_uri_is_text(text: str):
    assert shown({"text": text}) == [text]
