"""What the server has to show: contents, prompts, resources."""

from __future__ import annotations

import json
import re
from typing import Final

from mcp import MCPError
from mcp_types import (
    INVALID_PARAMS,
    AudioContent,
    BlobResourceContents,
    CompleteResult,
    Completion,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
"""One pixel."""
WAV: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
"""No sample at all."""

_TEMPLATE: Final = re.compile(r"test://template/([^/]+)/data")


def text(value: str) -> TextContent:
    """Return a text block."""
    return TextContent(type="text", text=value)


def image() -> ImageContent:
    """Return an image block."""
    return ImageContent(type="image", data=PNG, mime_type="image/png")


def audio() -> AudioContent:
    """Return an audio block."""
    return AudioContent(type="audio", data=WAV, mime_type="audio/wav")


def embedded(uri: str, value: str, mime_type: str = "text/plain") -> EmbeddedResource:
    """Return a resource block."""
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=value))


RESOURCES: Final = [
    Resource(uri="test://static-text", name="static-text", description="A text.", mime_type="text/plain"),
    Resource(uri="test://static-binary", name="static-binary", description="An image.", mime_type="image/png"),
    Resource(uri="test://watched-resource", name="watched", description="May change.", mime_type="text/plain"),
]
TEMPLATES: Final = [
    ResourceTemplate(
        uri_template="test://template/{id}/data", name="data", description="By id.", mime_type="application/json"
    )
]


def read(uri: str) -> ReadResourceResult:
    """Read a resource.

    Raises:
        MCPError: there is none.
    """
    found: TextResourceContents | BlobResourceContents
    if uri == "test://static-text":
        found = TextResourceContents(uri=uri, mime_type="text/plain", text="A static text.")
    elif uri == "test://static-binary":
        found = BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri == "test://watched-resource":
        found = TextResourceContents(uri=uri, mime_type="text/plain", text="Still the same.")
    elif (match := _TEMPLATE.fullmatch(uri)) is not None:
        found = TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps({"id": match[1]}))
    else:
        raise MCPError(INVALID_PARAMS, "no such resource", {"uri": uri})
    return ReadResourceResult(contents=[found])


def prompts() -> list[Prompt]:
    """Return all prompts that ask for nothing but arguments."""

    def prompt(name: str, *arguments: str) -> Prompt:
        taken = [PromptArgument(name=argument, description="A text.", required=True) for argument in arguments]
        return Prompt(name=name, description=f"The prompt {name}.", arguments=taken)

    return [
        prompt("test_simple_prompt"),
        prompt("test_prompt_with_arguments", "arg1", "arg2"),
        prompt("test_prompt_with_embedded_resource", "resourceUri"),
        prompt("test_prompt_with_image"),
    ]


def get_prompt(name: str, arguments: dict[str, str]) -> GetPromptResult:
    """Return a prompt.

    Raises:
        MCPError: there is none of that name.
    """
    blocks: list[TextContent | ImageContent | AudioContent | EmbeddedResource]
    if name == "test_simple_prompt":
        blocks = [text("A simple prompt.")]
    elif name == "test_prompt_with_arguments":
        blocks = [text(f"With {arguments.get('arg1')} and {arguments.get('arg2')}.")]
    elif name == "test_prompt_with_embedded_resource":
        blocks = [embedded(arguments.get("resourceUri", ""), "An embedded text."), text("Look at it.")]
    elif name == "test_prompt_with_image":
        blocks = [image(), text("Look at it.")]
    else:
        raise MCPError(INVALID_PARAMS, "no such prompt", {"name": name})
    return GetPromptResult(messages=[PromptMessage(role="user", content=block) for block in blocks])


def complete(value: str) -> CompleteResult:
    """Complete an argument."""
    words = [word for word in ("paris", "park", "party") if word.startswith(value)]
    return CompleteResult(completion=Completion(values=words, total=len(words), has_more=False))
