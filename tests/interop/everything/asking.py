"""Asking the client: by the server's own requests in the handshake era, by input_required results since 2026-07-28."""

from __future__ import annotations

from typing import Any, Final

from mcp_types import InputRequiredResult

NAME_SCHEMA: Final = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

DEFAULTS_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}


def _titled(*values: str) -> list[dict[str, str]]:
    return [{"const": value, "title": value.upper()} for value in values]


ENUMS_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": _titled("value1", "value2", "value3")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": _titled("value1", "value2", "value3")}},
    },
}

USER_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "A name."},
        "email": {"type": "string", "description": "An address."},
    },
    "required": ["username", "email"],
}


def elicitation(message: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a question to the user."""
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(prompt: str, max_tokens: int = 100) -> dict[str, Any]:
    """Return a question to the client's model."""
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}}


def roots() -> dict[str, Any]:
    """Return the question for the client's roots."""
    return {"method": "roots/list", "params": {}}


def property_schema(name: str, kind: str) -> dict[str, Any]:
    """Return the schema of an object with one property, which is required."""
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


def input_required(requests: dict[str, Any], state: str | None = None) -> InputRequiredResult:
    """Return an interim result that asks for these inputs."""
    return InputRequiredResult.model_validate({"inputRequests": requests, "requestState": state})
