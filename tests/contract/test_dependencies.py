"""The direction of dependencies: core ← plugins, core ← host, never sideways; and no use of the SDK's private parts."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core"
HOST = ROOT / "hostapp"
PLUGINS = sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))
EXAMPLES = [path for path in (ROOT / "docs", ROOT / "tests" / "docs") if path.exists()]
OURS = re.compile(r"midspan(_[a-z0-9_]+)?$")


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every imported module or name, in full, and the line it stands on."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((name, f"{path.relative_to(ROOT)}:{node.lineno}") for name in names)


def foreign(folder: Path, *allowed: str) -> list[str]:
    """Return the imports of our own packages that the folder's code may not make."""
    return [
        f"{where} imports {name}"
        for path in sorted(folder.rglob("*.py"))
        for name, where in imports_of(path)
        if OURS.match(name.partition(".")[0]) and name.partition(".")[0] not in allowed
    ]


def private(folder: Path) -> list[str]:
    """Return the imports of private parts of the SDK."""
    return [
        f"{where} imports {name}"
        for path in sorted(folder.rglob("*.py"))
        for name, where in imports_of(path)
        if name.startswith("midspan_sdk.") and any(part.startswith("_") for part in name.split("."))
    ]


def package_of(plugin: Path) -> str:
    (package,) = (path.name for path in (plugin / "src").iterdir() if (path / "__init__.py").exists())
    return package


def plugin_id(plugin: Path) -> str:
    return plugin.name


def requirements_of(distribution: Path) -> set[str]:
    project = tomllib.loads((distribution / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    return {re.split(r"[^A-Za-z0-9._-]", line)[0] for line in (*project["dependencies"], *extras)}


def test_the_core_imports_none_of_the_others() -> None:
    assert foreign(CORE / "src", "midspan_sdk") == []
    assert not any(one.startswith("midspan") for one in requirements_of(CORE))


def test_the_host_imports_the_sdk_and_no_plugin() -> None:
    assert foreign(HOST / "src", "midspan", "midspan_sdk") == []


def test_the_host_s_distribution_brings_what_a_first_run_shows() -> None:
    assert {"midspan-sdk", "midspan-policy", "midspan-secrets", "midspan-audit"} <= requirements_of(HOST)


def test_there_are_plugins_to_look_at() -> None:
    assert {plugin.name for plugin in PLUGINS} >= {"audit", "policy", "secrets"}


@pytest.mark.parametrize("plugin", PLUGINS, ids=plugin_id)
def test_a_plugin_imports_the_sdk_and_itself_only(plugin: Path) -> None:
    assert foreign(plugin / "src", "midspan_sdk", package_of(plugin)) == []
    assert {one for one in requirements_of(plugin) if one.startswith("midspan")} == {"midspan-sdk"}


@pytest.mark.parametrize("plugin", PLUGINS, ids=plugin_id)
def test_a_plugin_is_named_as_the_design_says(plugin: Path) -> None:
    project = tomllib.loads((plugin / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = f"midspan_{plugin.name.replace('-', '_')}"
    assert package_of(plugin) == package
    assert project["name"] == f"midspan-{plugin.name}"
    assert project["entry-points"] == {"midspan.plugins": {plugin.name: package}}


@pytest.mark.parametrize("folder", [HOST / "src", *(plugin / "src" for plugin in PLUGINS), *EXAMPLES], ids=str)
def test_nobody_imports_private_parts_of_the_sdk(folder: Path) -> None:
    assert private(folder) == []


def test_only_the_mcp_binding_imports_the_mcp_sdk_when_it_is_imported() -> None:
    sdk = CORE / "src" / "midspan_sdk"
    found = [
        f"{path.name}:{node.lineno}"
        for path in sorted(sdk.rglob("*.py"))
        if not path.is_relative_to(sdk / "mcp")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if (isinstance(node, ast.Import) and any(alias.name.partition(".")[0] in MCP for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MCP)
    ]
    assert found == []


MCP = frozenset({"mcp", "mcp_types"})


@pytest.mark.parametrize(
    "package", [CORE / "src" / "midspan_sdk", HOST / "src" / "midspan", *(next((p / "src").iterdir()) for p in PLUGINS)]
)
def test_every_package_is_typed(package: Path) -> None:
    assert (package / "py.typed").exists()
