from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from midspan.errors import OperatorError, PluginError
from midspan.plugins import Builder
from midspan.plugins._file import file_plugin

SIX_LINES = """\
from midspan_sdk import hookimpl, validator
@validator(events=["tools/call"], phase="request")
def no_rm(payload) -> str | None:
    return "destructive shell command" if "rm -rf" in str(payload.get("arguments")) else None
@hookimpl
def midspan_interceptors(): return [no_rm]
"""


def write(folder: Path, text: str, name: str = "no_rm.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_six_line_plugin_blocks_what_it_says(tmp_path: Path) -> None:
    assembly = Builder(plugin_files=[write(tmp_path, SIX_LINES)]).assembly()
    assert [entry.name for entry in assembly.chain.entries] == ["no-rm.no_rm"]

    async def main() -> None:
        async with assembly.running() as chain:
            for command, status in (("rm -rf /", "validation_failed"), ("ls", "success")):
                payload = {"name": "shell", "arguments": {"command": command}}
                result = await chain.execute(event="tools/call", phase="request", payload=payload)
                assert result.status == status

    anyio.run(main)


def test_nothing_is_written_beside_the_file_and_its_folder_is_not_importable(tmp_path: Path) -> None:
    write(tmp_path, "x = 1", "neighbour_of_no_rm.py")
    path = list(sys.path)
    Builder(plugin_files=[write(tmp_path, SIX_LINES)]).assembly()
    assert sys.path == path
    assert sorted(each.name for each in tmp_path.iterdir()) == ["neighbour_of_no_rm.py", "no_rm.py"]
    with pytest.raises(PluginError, match="No module named 'neighbour_of_no_rm'"):
        Builder(plugin_files=[write(tmp_path, "import neighbour_of_no_rm\n" + SIX_LINES)]).assembly()


def test_an_edited_file_is_run_as_it_is_now(tmp_path: Path) -> None:
    Builder(plugin_files=[write(tmp_path, SIX_LINES)]).assembly()
    (entry,) = Builder(plugin_files=[write(tmp_path, SIX_LINES.replace("no_rm", "no_sudo"))]).assembly().chain.entries
    assert entry.name == "no-rm.no_sudo"


def test_a_file_may_define_a_config_model_with_postponed_annotations(tmp_path: Path) -> None:
    source = """\
from __future__ import annotations
from dataclasses import dataclass
from pydantic import BaseModel
from midspan_sdk import hookimpl, validator
class Inner(BaseModel, extra="forbid"):
    word: str = "rm"
class Settings(BaseModel, extra="forbid"):
    inner: Inner = Inner()
@dataclass
class Seen:
    count: int = 0
@validator(events=["tools/call"], phase="request")
def check(payload, config: Settings): ...
@hookimpl
def midspan_config(): return Settings
@hookimpl
def midspan_interceptors(): return [check]
"""
    config = tmp_path / "midspan.toml"
    config.write_text("[plugins.words]\nmode = 'audit'\n[plugins.words.config]\ninner = { word = 'dd' }\n")
    assembly = Builder(config=config, plugin_files=[write(tmp_path, source, "words.py")]).assembly()
    (instance,) = assembly.instances
    assert instance.config is not None
    assert instance.config.model_dump() == {"inner": {"word": "dd"}}
    assert assembly.chain.entries[0].mode == "audit"


@pytest.mark.parametrize(
    ("source", "words", "line"),
    [
        ("x = 1\ndef broken(:\n", "cannot be imported: SyntaxError: invalid syntax", 2),
        ("x = 1\n\nraise ValueError('no')\n", "cannot be imported: ValueError: no", 3),
        ("def f():\n    raise SystemExit(3)\n\nf()\n", "cannot be imported: SystemExit: 3", 2),
    ],
)
def test_a_file_that_cannot_be_run_is_one_line_with_its_line_number(
    source: str, words: str, line: int, tmp_path: Path
) -> None:
    path = write(tmp_path, source)
    with pytest.raises(PluginError) as caught:
        Builder(plugin_files=[path]).assembly()
    assert str(caught.value) == (
        f"plugin 'no-rm' (file {path}): {words} ({path}:{line}) (to start without it, leave out --plugin-file)"
    )
    assert not any(name.startswith("midspan_plugin_file_") for name in sys.modules)


def test_a_file_without_hooks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="implements no hook; mark one, such as midspan_interceptors, with @hookimpl"):
        Builder(plugin_files=[write(tmp_path, "x = 1\n")]).assembly()


def test_a_missing_file_is_the_operators_mistake(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"^--plugin-file .*nothing\.py: no such file$") as caught:
        Builder(plugin_files=[tmp_path / "nothing.py"]).assembly()
    assert caught.value.exit_code == 2
    with pytest.raises(OperatorError, match=r"is no file$"):
        Builder(plugin_files=[tmp_path]).assembly()


@pytest.mark.parametrize(
    ("name", "plugin"),
    [
        ("no_rm.py", "no-rm"),
        ("No RM.v2.py", "no-rm-v2"),
        ("2fa.py", "file-2fa"),
        ("__x__.py", "x"),
        ("日本.py", "file"),
        ("guard", "guard"),
    ],
)
def test_the_id_is_the_files_stem_made_valid(name: str, plugin: str, tmp_path: Path) -> None:
    assert file_plugin(write(tmp_path, "", name)).id == plugin


def test_two_files_of_one_id_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(PluginError, match=r"its id is that of file .*no_rm\.py too; rename the file"):
        Builder(plugin_files=[write(tmp_path, SIX_LINES), write(other, SIX_LINES)]).assembly()


def test_a_file_cannot_take_the_id_of_an_installed_plugin(
    tmp_path: Path, fake_distribution: Callable[..., Path]
) -> None:
    fake_distribution("midspan-no-rm", plugins={"no-rm": "fake_no_rm"})
    with pytest.raises(PluginError, match=r"its id is that of midspan-no-rm 1\.0 too; rename the file"):
        Builder(plugin_files=[write(tmp_path, SIX_LINES)]).assembly()


def test_a_file_can_be_blocked(tmp_path: Path) -> None:
    assert Builder(plugin_files=[write(tmp_path, "raise ValueError")], no_plugins=["no-rm"]).assembly().empty
