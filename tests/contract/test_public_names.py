"""`__init__.py` is the contract: its `__all__` is sorted and equal to its public names."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "core" / "src", ROOT / "hostapp" / "src", *sorted((ROOT / "plugins").glob("*/src"))]


def public_modules() -> Iterator[tuple[str, Path]]:
    """Yield every package and, of the SDK, every public module."""
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            if any(part.startswith("_") for part in parts[:-1]) or parts[-1] == "__main__":
                continue
            if parts[-1] == "__init__":
                yield ".".join(parts[:-1]), path
            elif not parts[-1].startswith("_") and parts[0] == "midspan_sdk":
                yield ".".join(parts), path


MODULES = dict(public_modules())


class Names(NamedTuple):
    """The public names of a module: what it defines, what it takes over from modules of its own, what it uses."""

    defined: set[str]
    imported: set[str]
    used: set[str]


def names_of(path: Path) -> Names:
    defined: set[str] = set()
    imported: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in statements(tree.body):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                defined.add(node.name)
            case ast.Assign():
                defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name() as target):
                defined.add(target.id)
            case ast.ImportFrom() if is_our_own(path, node):
                imported |= {alias.asname or alias.name for alias in node.names}
            case _:
                pass
    used = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    return Names({name for name in defined if not name.startswith("_")}, imported, used)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, with those under `if TYPE_CHECKING`, which a lazy module declares."""
    for node in body:
        if isinstance(node, ast.If):
            yield from node.body
        else:
            yield node


def is_our_own(path: Path, node: ast.ImportFrom) -> bool:
    """Tell whether a package takes the name over from a module of its own."""
    if path.name != "__init__.py" or node.module is None:
        return False
    (source,) = (source for source in SOURCES if path.is_relative_to(source))
    return node.module.startswith(".".join(path.parent.relative_to(source).parts) + ".")


def order(name: str) -> tuple[int, str]:
    """Constants first, then classes, then functions, each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def test_there_are_modules_to_look_at() -> None:
    assert {"midspan_sdk", "midspan_sdk.wire", "midspan_sdk.testing", "midspan", "midspan_policy"} <= MODULES.keys()


def exported_by(name: str) -> list[str]:
    """Return `__all__`; a package that exports nothing needs none."""
    return getattr(importlib.import_module(name), "__all__", [])


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted_and_equal_to_the_public_names(name: str) -> None:
    exported = exported_by(name)
    names = names_of(MODULES[name])
    assert exported == sorted(set(exported), key=order)
    assert set(exported) <= names.defined | names.imported
    # What a package imports is public, unless it is there for the package's own code.
    assert names.defined | (names.imported - names.used) <= set(exported)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_exists_and_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    for public in exported_by(name):
        value = getattr(module, public)
        if callable(value) and getattr(value, "__module__", "").startswith("midspan"):
            assert value.__doc__, f"{name}.{public} has no docstring"


def test_the_names_that_the_design_promises_are_there() -> None:
    sdk = importlib.import_module("midspan_sdk")
    promised = (
        "validator mutator sink hookimpl Interceptor Invocation InvocationContext Principal Hook Descriptor allow deny",
        "Answer Ask State Store ToolCatalog ValidationResult ValidationMessage Suggestion MutationResult SinkResult",
        "Chain ChainEntry ChainExecutionResult ValidationSummary AbortedAt InterceptorOverrides Exchange",
        "DecisionRecord Observer ServerRef ServerResolver Command Problem",
    )
    assert [name for line in promised for name in line.split() if name not in sdk.__all__] == []
    errors = importlib.import_module("midspan_sdk.errors")
    assert [name for name in errors.__all__ if name not in sdk.__all__] == []
    for name in ("payload", "events", "testing", "mcp"):
        importlib.import_module(f"midspan_sdk.{name}")
