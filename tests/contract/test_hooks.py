"""Every hook is specified, documented and named in the design."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pluggy
import pytest

import midspan_sdk
from midspan_sdk import hookspecs

ROOT = Path(__file__).parents[2]
DESIGN = ROOT.parent / "shared" / "design.md"
REFERENCE = ROOT / "docs" / "reference" / "hooks.md"
HOOKS = [name for name in hookspecs.__all__ if name.startswith("midspan_")]


def test_the_specification_defines_these_hooks_and_no_others() -> None:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    specified = {name for name in vars(manager.hook) if name.startswith("midspan_")}
    assert specified == set(HOOKS)
    assert hookspecs.hookimpl is midspan_sdk.hookimpl


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_a_plain_function_with_a_typed_signature_and_a_page_of_documentation(hook: str) -> None:
    function = getattr(hookspecs, hook)
    assert inspect.isfunction(function)
    assert not inspect.iscoroutinefunction(function)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(one.annotation is not inspect.Parameter.empty for one in signature.parameters.values())
    assert function.__doc__
    assert re.search(r"[Cc]alled|[Ee]ntered", function.__doc__), "it says when it is called"


@pytest.mark.skipif(not DESIGN.exists(), reason="the design is not beside this repository")
def test_the_design_s_table_names_these_hooks_with_these_arguments() -> None:
    named = dict(re.findall(r"^\| `(midspan_\w+)\(([^)]*)\)`", DESIGN.read_text(encoding="utf-8"), re.MULTILINE))
    specified = {hook: ", ".join(inspect.signature(getattr(hookspecs, hook)).parameters) for hook in HOOKS}
    assert named == specified


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference is not written yet")
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_a_section_in_the_reference(hook: str) -> None:
    assert re.search(rf"^#+ .*`?{hook}\b", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def hooks_in_tests() -> set[str]:
    """Return the hooks that some test defines, or names in the source of a plugin that it writes."""
    found: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(re.findall(r"midspan_\w+", node.value))
    return found


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_a_test(hook: str) -> None:
    assert hook in hooks_in_tests()
