"""What is shown as code is code that is run, or a file that is read."""

import ast
import json
import tomllib
from pathlib import Path

from docs_pages import DOCS, Block, blocks_of, example_files, pages, readmes

from midspan.config import load_config
from midspan.plugins import Builder, discover


def blocks(language: str, *, of: list[Path] | None = None) -> list[Block]:
    return [block for page in of or [*pages(), *readmes()] for block in blocks_of(page, language)]


def test_python_in_the_documentation_is_an_excerpt_of_an_example_that_is_run() -> None:
    sources = ["\n" + file.read_text("utf-8") for file in example_files()]
    found = blocks("python", of=pages())
    assert found
    foreign = [block.place for block in found if not any("\n" + block.text in source for source in sources)]
    assert foreign == []


def test_python_in_the_readmes_compiles() -> None:
    found = blocks("python", of=readmes())
    assert found
    for block in found:
        compile(block.text, block.place, "exec")


def test_examples_and_readmes_import_public_modules_only() -> None:
    trees = {str(file): ast.parse(file.read_text("utf-8")) for file in example_files()}
    trees |= {block.place: ast.parse(block.text) for block in blocks("python", of=readmes())}
    private: list[str] = []
    for place, tree in trees.items():
        for node in ast.walk(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            own = [name for name in names if not name.startswith("midspan_acme_shell")]
            private += [f"{place}: {name}" for name in own if any(part.startswith("_") for part in name.split("."))]
    assert private == []


def test_a_config_that_is_shown_is_accepted(tmp_path: Path) -> None:
    installed = {info.id for info in discover()}
    checked = 0
    for block in blocks("toml"):
        data = tomllib.loads(block.text)
        if not data.keys() & {"plugins", "servers", "interceptor_servers"}:
            continue
        file = tmp_path / "midspan.toml"
        file.write_text(block.text, "utf-8")
        config = load_config(file)
        if {table.use or name for name, table in config.tables.items()} <= installed:
            Builder(config=file, gives=("session", "store"), remotes=False).assembly()  # their secrets are not here
            checked += 1
    assert checked > 3


def test_the_config_of_the_tutorial_is_the_one_its_page_shows() -> None:
    files = [
        DOCS / "tutorial/first-plugin/midspan.toml",
        DOCS / "tutorial/first-plugin/midspan-acme-shell/pyproject.toml",
    ]
    shown = [block.text for block in blocks_of(DOCS / "tutorial/first-plugin.md", "toml")]
    assert sorted(shown) == sorted(file.read_text("utf-8") for file in files)


def test_json_that_is_shown_is_json() -> None:
    found = blocks("json")
    assert found
    for block in found:
        json.loads(block.text)
