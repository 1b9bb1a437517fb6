"""`midspan plugins enable` and `plugins disable`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from midspan.cli._group import invoke

Install = Callable[..., Path]
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def say(*arguments: str) -> tuple[int, str, str]:
        code = invoke(["plugins", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return say


@pytest.fixture
def file(tmp_path: Path, fake_distribution: Install) -> Path:
    fake_distribution("midspan-guard", version="2.1", plugins={"guard": "fake_guard"})
    fake_distribution("midspan-old", plugins={"old": "fake_old"}, requires=["midspan-sdk<0.1"])
    fake_distribution("midspan-odd", plugins={"odd": "no module"})
    fake_distribution("midspan-twin", plugins={"twin": "fake_twin"})
    fake_distribution("midspan-other", plugins={"twin": "fake_other"})
    return tmp_path / "guards.toml"


def test_the_first_plugin_makes_the_file_and_the_list_shows_it_enabled(file: Path, say: Say) -> None:
    own = Path(click.get_app_dir("midspan")) / "midspan.toml"
    assert say("enable", "guard") == (0, f"enabled guard in {own}\n", "")
    assert own.read_text() == "[plugins.guard]\nenabled = true\n"
    assert own.stat().st_mode & 0o777 == 0o600
    assert ["guard", "midspan-guard", "2.1", "enabled"] in [line.split() for line in say("list")[1].splitlines()]


def test_the_users_own_place_may_be_named_before_the_file_is_there(file: Path, say: Say) -> None:
    own = Path(click.get_app_dir("midspan")) / "midspan.toml"
    assert say("enable", "guard", "--config", str(own)) == (0, f"enabled guard in {own}\n", "")


def test_another_file_that_is_missing_is_not_made(file: Path, say: Say) -> None:
    code, out, err = say("enable", "guard", "--config", str(file))
    assert (code, out) == (2, "")
    assert err == f"midspan: error: {file}: no such file (named by --config)\n"
    assert not file.exists()


def test_the_file_of_the_variable_is_changed(file: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("# mine\n")
    monkeypatch.setenv("MIDSPAN_CONFIG", str(file))
    assert say("enable", "guard") == (0, f"enabled guard in {file}\n", "")
    assert file.read_text() == "# mine\n\n[plugins.guard]\nenabled = true\n"


def test_an_id_means_all_tables_of_the_plugin_and_a_table_itself(file: Path, say: Say) -> None:
    file.write_text("[plugins.dev]\nuse = 'guard'\n[plugins.prod]\nuse = 'guard'\nenabled = true\n")
    named = ["--config", str(file)]
    assert say("enable", "guard", *named) == (0, f"enabled dev in {file}\nprod is enabled already in {file}\n", "")
    assert say("disable", "dev", *named) == (0, f"disabled dev in {file}\n", "")
    assert say("disable", "guard", *named) == (0, f"dev is disabled already in {file}\ndisabled prod in {file}\n", "")
    assert file.read_text() == (
        "[plugins.dev]\nenabled = false\nuse = 'guard'\n[plugins.prod]\nuse = 'guard'\nenabled = false\n"
    )


def test_disabling_a_plugin_leaves_no_table_of_it_on_when_one_has_its_id(file: Path, say: Say) -> None:
    file.write_text("[plugins.guard]\nenabled = true\n[plugins.dev]\nuse = 'guard'\nenabled = true\n")
    assert say("disable", "guard", "--config", str(file))[1] == f"disabled guard in {file}\ndisabled dev in {file}\n"
    assert "true" not in file.read_text()


def test_what_is_so_already_is_said_and_the_file_is_not_touched(file: Path, say: Say) -> None:
    file.write_text("[plugins.guard]\nenabled = true\n[plugins.dev]\nuse = 'guard'\n")
    os.utime(file, ns=(1, 1))
    named = ["--config", str(file)]
    assert say("enable", "guard", *named) == (0, f"guard is enabled already in {file}\n", "")
    assert say("disable", "dev", "old", *named) == (
        0,
        f"old is not enabled in {file}\ndev is disabled already in {file}\n",
        "",
    )
    assert file.stat().st_mtime_ns == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gaurd", "no installed plugin has the id 'gaurd', and no table its name; did you mean 'guard'?"),
        (
            "zzz",
            "no installed plugin has the id 'zzz', and no table its name; `midspan plugins install PACKAGE` installs "
            "one, `midspan plugins list` shows those that are there",
        ),
        ("old", "plugin 'old' (midspan-old 1.0): "),
        ("odd", "plugin 'odd' (midspan-odd 1.0): its entry point 'no module' names no module and no object in one"),
        (
            "twin",
            "plugin 'twin': midspan-other 1.0 and midspan-twin 1.0 bring the same id; uninstall one, or choose with "
            '`distribution = "midspan-other"` in [plugins.twin]',
        ),
    ],
)
def test_a_plugin_that_cannot_run_is_not_enabled_and_nothing_is_written(
    name: str, says: str, file: Path, say: Say
) -> None:
    file.write_text("# mine\n")
    code, out, err = say("enable", "guard", name, "--config", str(file))
    assert (code, out) == (2, "")
    assert err.startswith(f"midspan: error: {says}")
    assert err.count("\n") == 1
    assert file.read_text() == "# mine\n"


def test_a_name_that_nothing_has_is_not_disabled(file: Path, say: Say) -> None:
    file.write_text("[plugins.guard]\nenabled = true\n")
    code, _, err = say("disable", "gaurd", "--config", str(file))
    assert (code, err.count("did you mean 'guard'?")) == (2, 1)


def test_a_table_whose_plugin_is_not_installed_can_be_enabled_with_a_warning(file: Path, say: Say) -> None:
    file.write_text("[plugins.lab]\nuse = 'absent'\n")
    code, out, err = say("enable", "lab", "--config", str(file))
    assert (code, out) == (0, f"enabled lab in {file}\n")
    assert err == (
        "midspan: warning: [plugins.lab]: no installed plugin has the id 'absent'; `midspan plugins install` it\n"
    )


def test_the_file_that_holds_the_table_is_changed_and_named(file: Path, say: Say) -> None:
    team = file.with_name("team.toml")
    file.write_text("include = ['team.toml']\n[plugins.guard]\n")
    team.write_text("# of the team\n[plugins.dev]\nuse = 'guard'\n")
    assert say("enable", "guard", "dev", "--config", str(file)) == (
        0,
        f"enabled guard in {file}\nenabled dev in {team}\n",
        "",
    )
    assert team.read_text() == "# of the team\n[plugins.dev]\nenabled = true\nuse = 'guard'\n"


def test_a_file_that_cannot_be_changed_is_one_line(file: Path, say: Say) -> None:
    file.write_text("[plugins.guard]\n")
    file.chmod(0o444)
    code, out, err = say("enable", "guard", "--config", str(file))
    assert (code, out, err) == (2, "", f"midspan: error: {file}: cannot be changed: it is read-only\n")
