"""Denies tool calls that contain a word, and shouts what tools answer."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from midspan_sdk import Interceptor, hookimpl, mutator, validator
from midspan_sdk.payload import Text, edit_text, find_text

__all__ = ["ShoutConfig", "midspan_config", "midspan_interceptors"]


class ShoutConfig(BaseModel, extra="forbid"):
    """The table `[plugins.acme-shout.config]`."""

    word: str = Field(min_length=1, description="a call whose arguments contain it is denied")


@validator(events=["tools/call"], phase="request")
def no_such_word(payload: dict[str, Any], config: ShoutConfig) -> str | None:
    """Deny a call whose arguments contain the word."""
    arguments: dict[str, Any] = payload.get("arguments") or {}
    for text in find_text({"arguments": arguments}):
        if config.word in text.value:
            return f"the word stands in {text.path}"
    return None


@mutator(events=["tools/call"], phase="response")
def shout(payload: dict[str, Any]) -> dict[str, Any] | None:
    """Write what the tool answered in capitals, in its text and in its structured content."""
    return edit_text(payload, _in_capitals)


def _in_capitals(text: Text) -> str | None:
    return text.value.upper() if text.part == "value" and text.name in ("text", "result") else None


@hookimpl
def midspan_config() -> type[ShoutConfig]:
    """Name the config model."""
    return ShoutConfig


@hookimpl
def midspan_interceptors() -> list[Interceptor[..., Any]]:
    """Contribute both interceptors."""
    return [no_such_word, shout]
