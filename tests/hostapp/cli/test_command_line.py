from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from midspan.cli import _group
from midspan.cli._group import COMMANDS, invoke
from midspan.errors import OperatorError

Install = Callable[..., Path]

REPORT = """
import sys
before = set(sys.modules)
from midspan.cli import main
sys.argv = ["midspan", *sys.argv[1:]]
try:
    main()
except SystemExit as stop:
    code = stop.code
for name in sorted(set(sys.modules) - before):
    print("imported", name, file=sys.stderr)
sys.exit(code)
"""


def run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", REPORT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=folder)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("plugins", "--help"),
        ("plugins", "list", "--help"),
        ("plugins", "list"),
        ("plugins", "list", "--json"),
        ("plugins", "list", "--config", "{config}", "--plugin", "secrets", "--no-plugin", "audit"),
        ("plugins", "enable", "--config", "{config}", "policy", "secrets"),
        ("plugins", "disable", "--config", "{config}", "policy"),
        ("plugins", "install", "--help"),
    ],
)
def test_light_commands_import_the_command_line_library_and_the_standard_library_only(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    config = tmp_path / "midspan.toml"
    config.write_text("[plugins.policy]\nenabled = true\nmode = 'audit'\n")
    done = run(*(argument.format(config=config) for argument in arguments))
    assert done.returncode == 0, done.stderr
    names = {line.removeprefix("imported ") for line in done.stderr.splitlines() if line.startswith("imported ")}
    packages = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    # zipp and lazy_importer are what importlib_metadata itself requires; colorama is click's on Windows.
    assert packages <= {"midspan", "click", "importlib_metadata", "zipp", "lazy_importer", "colorama"}
    assert {"midspan", "click"} <= packages
    heavy = {"midspan.config._model", "midspan.plugins._assembly", "midspan.relay", "midspan.interception"}
    assert not heavy & names


def test_help_names_every_command_with_its_line_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, (help_text, _) in COMMANDS.items():
        assert f"{name} {help_text}" in text
    assert "<plugin id> ..." in text


def test_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert invoke(["--version"]) == 0
    assert capsys.readouterr().out == f"midspan {version('midspan')}\n"


def test_no_command_shows_the_help_and_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([]) == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["rnu"], "no such command 'rnu'; did you mean 'run'? (see `midspan --help`)"),
        (["polcy"], "no such command 'polcy'; did you mean 'policy'? (see `midspan --help`)"),
        (["plugins", "lst"], "No such command 'lst'. Did you mean 'list'? (see `midspan plugins --help`)"),
        (["plugins", "show"], "Missing argument 'ID'. (see `midspan plugins show --help`)"),
        (["plugins", "list", "--config", "/not/there.toml"], "/not/there.toml: no such file (named by --config)"),
        (["--frobnicate"], "No such option '--frobnicate'. (see `midspan --help`)"),
    ],
)
def test_the_operators_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"midspan: error: {line}\n"


@pytest.fixture
def with_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Put a command `probe` in the place of all others."""

    def put(function: Callable[[], object]) -> None:
        def get_command(group: click.Group, ctx: click.Context, name: str) -> click.Command:
            return click.Command("probe", callback=function)

        monkeypatch.setattr(_group.LazyGroup, "get_command", get_command)

    return put


def test_an_operator_error_in_the_groups_of_tasks_is_still_one_line(
    with_command: Callable[[Callable[[], object]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def probe() -> None:
        raise ExceptionGroup("tasks", [ExceptionGroup("inner", [OperatorError("the port\nis taken")])])

    with_command(probe)
    assert invoke(["probe"]) == 2
    assert capsys.readouterr().err == "midspan: error: the port is taken\n"


@pytest.mark.parametrize(
    "error", [RuntimeError("bug"), ExceptionGroup("tasks", [OperatorError("mistake"), RuntimeError("bug")])]
)
def test_a_bug_stays_a_traceback(error: Exception, with_command: Callable[[Callable[[], object]], None]) -> None:
    def probe() -> None:
        raise error

    with_command(probe)
    with pytest.raises(type(error)):
        invoke(["probe"])


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (3, 3), (2, 2)])
def test_what_a_command_returns_is_the_exit_code(
    returned: object, code: int, with_command: Callable[[Callable[[], object]], None]
) -> None:
    with_command(lambda: returned)
    assert invoke(["probe"]) == code


def test_ctrl_c_is_exit_code_130(with_command: Callable[[Callable[[], object]], None]) -> None:
    def probe() -> None:
        raise KeyboardInterrupt

    with_command(probe)
    assert invoke(["probe"]) == 130


def test_a_module_in_the_working_directory_is_not_taken_for_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "midspan_policy.py").write_text("raise SystemExit('taken over')")
    (tmp_path / "evil-1.0.dist-info").mkdir()
    (tmp_path / "evil-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (tmp_path / "evil-1.0.dist-info" / "entry_points.txt").write_text("[midspan.plugins]\nevil = evil\n")
    command = [sys.executable, "-m", "midspan", "plugins"]
    listed = subprocess.run([*command, "list"], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    assert "policy" in listed.stdout
    assert "evil" not in listed.stdout
    shown = subprocess.run(
        [*command, "show", "policy"], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
    )
    assert "taken over" not in shown.stderr
