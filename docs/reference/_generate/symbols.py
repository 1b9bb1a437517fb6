"""Public names: functions, classes, hooks, errors."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, cast, get_args, get_origin

from docstrings import cell, markdown
from pydantic import BaseModel
from signatures import annotation_text, signature_of

from midspan._docstrings import Docstring  # pyright: ignore[reportPrivateUsage] - the one parser, which is no API
from midspan_sdk import errors, hookspecs, wire

_FIELD_SECTIONS = ("Attributes",)
_OF_EVERY_MODEL = frozenset({"to_wire"})
_WORDS = {
    **{name: value for name, value in vars(wire).items() if get_origin(value) is Literal},
    "Name": str,
    "Priority": int,
}
"""What the SDK's own names of types stand for."""


def symbols(module: str, *names: str) -> str:
    """Return a section for each name of a module."""
    found = import_module(module)
    return "\n\n".join(_symbol(name, getattr(found, name)) for name in names)


def constructors(module: str, *names: str) -> str:
    """Return a section for each class of a module, without what its objects can do."""
    found = import_module(module)
    return "\n\n".join(_class(name, getattr(found, name), members=False) for name in names)


def hooks() -> str:
    """Return a section for each hook."""
    return "\n\n".join(_symbol(name, getattr(hookspecs, name)) for name in _hook_names())


def _hook_names() -> list[str]:
    source = inspect.getsource(hookspecs)
    names = [name for name in hookspecs.__all__ if name.startswith("midspan_")]
    return sorted(names, key=lambda name: source.index(f"def {name}("))


def error_tree() -> str:
    """Return the tree of errors, as the module's docstring draws it, and a row for each."""
    tree = (errors.__doc__ or "").partition("\n\n")[2].strip()
    rows = ["| error | base | meaning | attributes |", "|---|---|---|---|"]
    for name in errors.__all__:
        error: type[Exception] = getattr(errors, name)
        docstring = Docstring(error)
        attributes = "; ".join(f"`{key}`: {text}" for key, text in docstring.entries("Attributes").items())
        bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
        rows.append(f"| `{name}` | {bases} | {cell(docstring.text)} | {cell(attributes)} |")
    return "\n".join(["```text", tree, "```", "", *rows])


def _symbol(name: str, value: object) -> str:
    if inspect.isclass(value):
        return _class(name, value)
    if callable(value):
        shown = signature_of(name, cast("Callable[..., Any]", value))
        return f"### `{name}`\n\n```text\n{shown}\n```\n\n{markdown(Docstring(value))}"
    return f"### `{name}`\n\n`{value!r}`"


def _class(name: str, value: type[Any], *, members: bool = True) -> str:
    docstring = Docstring(value)
    parts = [f"### `{name}`"]
    fields = _fields(value)
    if fields:
        parts += [markdown(docstring, leave_out=_FIELD_SECTIONS), _field_table(fields, docstring.entries("Attributes"))]
    else:
        if _is_for_callers(value, docstring):
            parts.append(f"```text\n{signature_of(name, value.__init__, method=True, result=False)}\n```")
        parts.append(markdown(docstring))
    if members:
        parts += [_member(member, each) for member, each in _members(value).items()]
    return "\n\n".join(part for part in parts if part)


def _is_for_callers(value: type[Any], docstring: Docstring) -> bool:
    """Tell whether a reader may construct it: what its parameters mean is written down."""
    if "__init__" not in vars(value) or getattr(value, "_is_protocol", False):
        return False
    return "Args" in docstring.sections or set(inspect.signature(value).parameters) <= {
        *docstring.entries("Attributes")
    }


def _fields(value: type[Any]) -> dict[str, tuple[str, str]]:
    """Return type and default of the fields of a model or a dataclass."""
    annotations = {
        key: annotation_text(text)
        for owner in reversed(value.__mro__)
        if owner.__module__.startswith("midspan")
        for key, text in vars(owner).get("__annotations__", {}).items()
    }
    if issubclass(value, BaseModel):
        return {
            key: (annotations.get(key, ""), "required" if field.is_required() else f"`{field.default!r}`")
            for key, field in value.model_fields.items()
        }
    if dataclasses.is_dataclass(value):
        return {
            field.name: (
                annotations[field.name],
                "required" if field.default is dataclasses.MISSING else f"`{field.default!r}`",
            )
            for field in dataclasses.fields(value)
            if not field.name.startswith("_")
        }
    return {}


def _field_table(fields: dict[str, tuple[str, str]], meanings: dict[str, str]) -> str:
    rows = [
        f"| `{key}` | `{cell(_words(kind))}` | {cell(default)} | {cell(meanings.get(key, ''))} |"
        for key, (kind, default) in fields.items()
    ]
    if not meanings:
        rows = [row.removesuffix("  |") for row in rows]
        return "\n".join(["| field | type | default |", "|---|---|---|", *rows])
    return "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows])


def _words(annotation: str) -> str:
    plain = re.sub(r"Annotated\[(\w+), .*\]", r"\1", annotation)
    return re.sub(r"\w+", lambda word: _word(word[0]), plain)


def _word(word: str) -> str:
    value: object = _WORDS.get(word)
    if value is None:
        return word
    return value.__name__ if isinstance(value, type) else f"Literal[{', '.join(map(repr, get_args(value)))}]"


def _members(value: type[Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    for owner in reversed(value.__mro__):
        if not owner.__module__.startswith("midspan"):
            continue
        for key, member in vars(owner).items():
            is_public = not key.startswith("_") or (key == "__call__" and getattr(value, "_is_protocol", False))
            if is_public and (inspect.isfunction(member) or isinstance(member, property | cached_property)):
                found[key] = member
    inherited = _OF_EVERY_MODEL if issubclass(value, BaseModel) else frozenset[str]()
    return {key: member for key, member in found.items() if Docstring(member).text and key not in inherited}


def _member(name: str, member: object) -> str:
    getter = _getter(member)
    if getter is not None:
        returns = annotation_text(inspect.signature(getter).return_annotation)
        return f"#### `.{name}: {returns}`\n\n{markdown(Docstring(getter))}"
    method = cast("Callable[..., Any]", member)
    shown = signature_of(f".{name}", method, method=True)
    return f"#### `.{name}()`\n\n```text\n{shown}\n```\n\n{markdown(Docstring(method))}"


def _getter(member: object) -> Callable[..., Any] | None:
    if isinstance(member, property):
        return member.fget
    return cast("Any", member).func if isinstance(member, cached_property) else None
