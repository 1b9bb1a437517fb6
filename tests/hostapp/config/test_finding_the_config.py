from __future__ import annotations

from pathlib import Path

import pytest

from midspan.config import find_config, user_config
from midspan.errors import ConfigError


def test_the_named_file_wins_over_the_variable_and_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, by_variable = tmp_path / "named.toml", tmp_path / "variable.toml"
    own = user_config()
    assert own is not None
    own.parent.mkdir(parents=True)
    for path in (named, by_variable, own):
        path.touch()

    assert find_config() == own
    monkeypatch.setenv("MIDSPAN_CONFIG", str(by_variable))
    assert find_config() == by_variable
    assert find_config(named) == named


def test_no_config_at_all_is_none() -> None:
    assert find_config() is None


def test_a_config_in_the_working_directory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "midspan.toml").write_text("[plugins.policy]\nenabled = false\n")
    (tmp_path / ".midspan.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert find_config() is None


def test_a_config_folder_relative_to_the_working_directory_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "midspan").mkdir(parents=True)
    (tmp_path / "here" / "midspan" / "midspan.toml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert user_config() is None
    assert find_config() is None


def test_a_relative_path_in_the_variable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "midspan.toml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIDSPAN_CONFIG", "midspan.toml")
    with pytest.raises(ConfigError, match=r"^MIDSPAN_CONFIG must be an absolute path, not 'midspan.toml'$"):
        find_config()


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_named_file_that_is_missing_is_the_operators_mistake(
    by_variable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "missing.toml"
    if by_variable:
        monkeypatch.setenv("MIDSPAN_CONFIG", str(missing))
    with pytest.raises(ConfigError, match="no such file") as caught:
        find_config(None if by_variable else missing)
    assert caught.value.exit_code == 2
    assert str(missing) in str(caught.value)
    assert ("MIDSPAN_CONFIG" if by_variable else "--config") in str(caught.value)
