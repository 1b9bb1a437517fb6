"""The tree of errors, and the JSON-RPC error that each invocation error stands for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from midspan_sdk import (
    ChainError,
    DefinitionError,
    DuplicateInterceptorError,
    InterceptorFailedError,
    InterceptorTimeoutError,
    InvalidInvocationError,
    InvocationError,
    LostServerError,
    MidspanError,
    PeerError,
    UnknownInterceptorError,
    UnmetNeedError,
    errors,
    wire,
)


def test_the_tree_is_the_one_that_the_module_draws() -> None:
    assert errors.__doc__ is not None
    drawn: dict[str, str] = {}
    above = ["MidspanError"]
    for line in errors.__doc__.splitlines():
        if found := re.match(r"^([│├└─ ]+)(\w+Error)\b", line):
            depth = len(found[1]) // 4
            above[depth:] = [found[2]]
            drawn[found[2]] = above[depth - 1]
    classes = [getattr(errors, name) for name in errors.__all__ if name != "MidspanError"]
    assert drawn == {each.__name__: each.__bases__[0].__name__ for each in classes}
    assert MidspanError.__bases__ == (Exception,)


@pytest.mark.parametrize(
    ("error", "code", "message", "data"),
    [
        (UnknownInterceptorError("it"), -32602, "Unknown interceptor", {"interceptor": "it"}),
        (
            InvalidInvocationError("it", "no config"),
            -32602,
            "Invalid interceptor invocation",
            {"interceptor": "it", "reason": "no config"},
        ),
        (
            InterceptorTimeoutError("it", timeout_ms=250, phase="response"),
            -32000,
            "Interceptor execution timeout",
            {"interceptor": "it", "timeoutMs": 250, "phase": "response"},
        ),
        (
            InterceptorFailedError("it", "the validator raised KeyError"),
            -32603,
            "Interceptor execution failed",
            {"interceptor": "it", "reason": "the validator raised KeyError"},
        ),
        (
            LostServerError("it"),
            -32603,
            "Interceptor execution failed",
            {"interceptor": "it", "reason": "the interceptor server is gone"},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_invocation_error_carries_its_row_of_the_protocol_s_table(
    error: InvocationError, code: int, message: str, data: dict[str, object]
) -> None:
    assert (error.code, error.message, error.data, error.interceptor) == (code, message, data, "it")


def test_errors_carry_attributes_beside_their_sentence() -> None:
    definition = DefinitionError("it", "must not be empty", field="name")
    assert (definition.interceptor, definition.field, definition.problem) == ("it", "name", "must not be empty")
    assert str(definition) == "interceptor 'it': name: must not be empty"
    assert str(DefinitionError("it", "is a method")) == "interceptor 'it': is a method"
    assert issubclass(DuplicateInterceptorError, DefinitionError)
    assert issubclass(UnmetNeedError, DefinitionError)
    assert str(PeerError("central", "sent no list")) == "interceptor server 'central': sent no list"
    assert not issubclass(ChainError, InvocationError)


def test_the_words_of_the_wire_stand_in_one_module() -> None:
    """A renamed method, key or code must be changed in `wire.py` only."""
    source = Path(wire.__file__).parent
    words = {
        wire.LIST_METHOD,
        wire.INVOKE_METHOD,
        wire.CAPABILITY_KEY,
        wire.SUPPORTED_EVENTS_KEY,
        wire.EXECUTION_TIMEOUT_MESSAGE,
        wire.EXECUTION_FAILED_MESSAGE,
        wire.VALIDATION_FAILED_MESSAGE,
        wire.MUTATION_FAILED_MESSAGE,
        wire.STATE_KEY,
    }
    assert [
        f"{path.name}:{node.lineno}: {node.value}"
        for path in sorted(source.rglob("*.py"))
        if path.name != "wire.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in words
    ] == []
