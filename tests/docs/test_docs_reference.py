"""The generated pages are current and complete."""

import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
from docs_pages import DOCS, text_of
from pydantic import BaseModel

from midspan_sdk import (
    Answer,
    Chain,
    DefinitionError,
    FailedResult,
    MutationResult,
    SinkResult,
    ValidationResult,
    errors,
    hookspecs,
    mutator,
    sink,
    validator,
)
from midspan_sdk.testing import run

REFERENCE = DOCS / "reference"
SECTIONS = frozenset(
    name
    for page in REFERENCE.glob("*.md")
    for name in re.findall(r"^### `([A-Za-z_]\w*)`$", text_of(page), re.MULTILINE)
)
# Names without a section of their own, each with the text that says what it is.
ELSEWHERE = {
    "InterceptorResult": ("results.md", "`InterceptorResult` is"),
    "hookimpl": ("hooks.md", "`@hookimpl`"),
    "EDITABLE_PARTS": ("payload.md", "`EDITABLE_PARTS`"),
    "PROTECTED_PARTS": ("payload.md", "`PROTECTED_PARTS`"),
    "Part": ("payload.md", "`Part` is"),
}


def test_the_generated_parts_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(REFERENCE / "_generate"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"run `uv run python docs/reference/_generate`\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    "module", ["midspan", "midspan_sdk", "midspan_sdk.mcp", "midspan_sdk.payload", "midspan_sdk.testing"]
)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    missing = set(import_module(module).__all__) - SECTIONS - ELSEWHERE.keys() - set(errors.__all__)
    assert missing == set()


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_without_a_section_is_explained_where_it_says(name: str) -> None:
    page, words = ELSEWHERE[name]
    assert words in text_of(REFERENCE / page)


def test_every_error_is_in_the_table_of_errors() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", text_of(REFERENCE / "errors.md"), re.MULTILINE))
    assert rows == set(errors.__all__)


def test_every_hook_has_a_section() -> None:
    assert {name for name in hookspecs.__all__ if name.startswith("midspan_")} <= SECTIONS


class AnyCall(BaseModel):
    name: str


CALL = {"name": "shell"}
OTHER = {"name": "another"}
RETURNED: dict[str, Any] = {
    "`None`": None,
    "`True`": True,
    "`False`": False,
    "`str`": "a reason",
    "mapping": OTHER,
    "pydantic model": AnyCall(name="another"),
    "`ValidationResult`": ValidationResult(valid=True),
    "`MutationResult`": MutationResult(modified=True, payload=OTHER),
    "`SinkResult`": SinkResult(recorded=True),
    "`Answer`": Answer({"content": []}),
}


def rows_of_return_values() -> list[tuple[str, str, str]]:
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text_of(REFERENCE / "return-values.md"), re.MULTILINE
    )
    kinds = ("validator", "mutator", "sink")
    return [
        (row[0], kind, meaning)
        for row in rows
        if not row[0].startswith(("returned", "---"))
        for kind, meaning in zip(kinds, row[1:], strict=True)
    ]


def outcome(kind: str, value: Any) -> str:
    """Say in the words of the page what a return value came to."""

    def handler() -> Any:
        return value

    if kind == "sink":
        chain, failed = run_sink(handler)
        return "failure" if failed else chain
    decorate = validator if kind == "validator" else mutator
    result = run(decorate(events=["*"], phase="request")(handler), event="tools/call", phase="request", payload=CALL)
    if isinstance(result.results[0], FailedResult):
        return "failure"
    if kind == "validator":
        return "allowed" if result.aborted_at is None else f"denied, {result.aborted_at.reason}"
    if result.answer is not None:
        return "answer"
    return "the new payload" if result.modified else "unchanged"


def run_sink(handler: Any) -> tuple[str, int]:
    import anyio

    async def main() -> int:
        async with Chain() as chain:
            chain.add(sink(events=["*"], phase="request", name="it")(handler))
            await chain.execute(event="tools/call", phase="request", payload=CALL)
        return chain.failed["it"]

    return "taken", anyio.run(main)


EXPECTED = {
    "allowed": "allowed",
    "denied": "denied, denied",
    "denied, the reason": "denied, a reason",
    "failure": "failure",
    "unchanged": "unchanged",
    "the new payload": "the new payload",
    "recorded": "taken",
    "not recorded": "taken",
    "in the request phase: answers in place of the other side": "answer",
}


@pytest.mark.parametrize(("returned", "kind", "meaning"), rows_of_return_values())
def test_the_table_of_return_values_is_true(returned: str, kind: str, meaning: str) -> None:
    as_is = {"validator": "allowed", "mutator": "the new payload", "sink": "taken"}[kind]
    assert outcome(kind, RETURNED[returned]) == (as_is if meaning == "as is" else EXPECTED[meaning])


def test_the_table_of_return_values_has_a_row_for_each_kind_of_value() -> None:
    assert {returned for returned, _, _ in rows_of_return_values()} == set(RETURNED)


@pytest.mark.parametrize(
    "parameter",
    re.findall(r"^\| `(\w+)` \| ", text_of(REFERENCE / "handler-parameters.md").partition("### ")[0], re.MULTILINE),
)
def test_what_a_parameter_needs_is_refused_where_it_is_not_given(parameter: str) -> None:
    row = next(
        line
        for line in text_of(REFERENCE / "handler-parameters.md").splitlines()
        if line.startswith(f"| `{parameter}` |")
    )
    needs = row.rstrip(" |").rpartition("| ")[2].strip("`") if row.endswith("` |") else None
    scope: dict[str, Any] = {"AnyCall": AnyCall}
    exec(f"async def handler({parameter}{': AnyCall' if parameter in ('params', 'result') else ''}): pass", scope)
    phase = "response" if parameter == "result" else "request"
    interceptor = validator(events=["*"], phase=phase)(scope["handler"])
    if needs is None:
        Chain(gives=()).add(interceptor)
        return
    with pytest.raises(DefinitionError, match="needs"):
        Chain(gives=()).add(interceptor)
    Chain(gives=[needs]).add(interceptor)
