"""The table of conformance names code and tests that exist."""

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from docs_pages import DOCS, ROOT, text_of

PAGE = DOCS / "reference" / "conformance.md"
ROW = re.compile(r"^\| (?P<clause>.+?) \| (?P<state>.+?) \| (?P<code>.*?) ?\| (?P<test>.*?) ?\|$", re.MULTILINE)
ROWS = [row for row in ROW.finditer(text_of(PAGE)) if row["clause"] not in ("clause", "---")]


@cache
def functions_of(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_there_are_rows() -> None:
    assert len(ROWS) > 70


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["clause"][:60])
def test_a_clause_names_code_and_tests_that_exist(row: re.Match[str]) -> None:
    for name in names_in(row["code"]):
        module, _, path = name.partition(":")
        found: object = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    for name in names_in(row["test"]):
        file, _, function = name.partition("::")
        assert function in functions_of(ROOT / "tests" / file), name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["clause"][:60])
def test_a_clause_is_kept_or_says_what_is_missing(row: re.Match[str]) -> None:
    state = row["state"]
    assert state.startswith(("yes", "partly: ", "not yet"))
    if not state.startswith("not yet"):
        assert names_in(row["code"])
        assert names_in(row["test"])


def test_the_table_is_dated() -> None:
    assert re.search(r"As of 20\d\d-\d\d-\d\d", text_of(PAGE))
