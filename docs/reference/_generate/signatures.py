"""Signatures as the source has them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

WIDTH = 100


def signature_of(name: str, function: Callable[..., Any], *, method: bool = False, result: bool = True) -> str:
    """Return a signature in one line, or one line for each parameter when it is long."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    shown = _parameters(parameters)
    returns = signature.return_annotation
    arrow = f" -> {annotation_text(returns)}" if result and returns is not inspect.Signature.empty else ""
    word = "async " if inspect.iscoroutinefunction(function) else ""
    line = f"{word}{name}({', '.join(shown)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{word}{name}(", *(f"    {each}," for each in shown), f"){arrow}"])


def _parameters(parameters: list[inspect.Parameter]) -> list[str]:
    shown: list[str] = []
    starred = False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        starred = starred or stars == "*"
        text = f"{stars}{parameter.name}"
        if parameter.annotation is not inspect.Parameter.empty:
            text += f": {annotation_text(parameter.annotation)}"
        if parameter.default is not inspect.Parameter.empty:
            text += f" = {default_text(parameter.default)}"
        shown.append(text)
    return shown


def annotation_text(annotation: object) -> str:
    """Return an annotation as the source has it."""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def default_text(default: object) -> str:
    """Return a default value as the source has it, as far as it can be told."""
    if callable(default):
        return f"{getattr(default, '__module__', '')}.{getattr(default, '__qualname__', default)}"
    return repr(default)
