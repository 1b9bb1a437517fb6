"""Switching plugins on and off in a file that a person wrote."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midspan.config import set_enabled
from midspan.errors import ConfigError

from .toml_texts import CHANCES, DOCUMENTS, Writer

NOBODY = 65534


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "midspan.toml"
        path.write_bytes(text.encode())
        return path

    return write


def said(path: Path) -> Any:
    return tomllib.loads(path.read_bytes().decode("utf-8-sig"))


def text_of(path: Path) -> str:
    return path.read_bytes().decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "# mine\n[plugins.policy] # why\nenabled   =   false # for now\nmode = 'audit'\n",
            "# mine\n[plugins.policy] # why\nenabled   =   true # for now\nmode = 'audit'\n",
        ),
        (
            "[plugins.policy] # why\n  mode = 'audit'\n\n# Servers\n[servers.x]\n",
            "[plugins.policy] # why\n  enabled = true\n  mode = 'audit'\n\n# Servers\n[servers.x]\n",
        ),
        ("  [plugins.policy]", "  [plugins.policy]\n  enabled = true"),
        ("[plugins.policy]\r\nmode = 'audit'\r\n", "[plugins.policy]\r\nenabled = true\r\nmode = 'audit'\r\n"),
        (
            "[plugins.policy.config]\ndeny = []\n[servers.x]\n",
            "[plugins.policy.config]\ndeny = []\n[servers.x]\n\n[plugins.policy]\nenabled = true\n",
        ),
        ("plugins = { policy = { enabled = false } }\n", "plugins = { policy = { enabled = true } }\n"),
        ("plugins = { policy = {mode = 'audit'} }\n", "plugins = { policy = { enabled = true, mode = 'audit'} }\n"),
        ("plugins = { policy = {} }\n", "plugins = { policy = { enabled = true } }\n"),
        ("plugins = { pii = { a = 1 } }\n", "plugins = { policy = { enabled = true }, pii = { a = 1 } }\n"),
        ("plugins = { policy.a = 1 }\n", "plugins = { policy.enabled = true, policy.a = 1 }\n"),
        ("plugins = {}\n", "plugins = { policy = { enabled = true } }\n"),
        ("[plugins]\npolicy.enabled = false\n", "[plugins]\npolicy.enabled = true\n"),
        (
            "[plugins]\n# a\n\t'policy' . mode = 'audit'\n",
            "[plugins]\n# a\n\t'policy'.enabled = true\n\t'policy' . mode = 'audit'\n",
        ),
        ("[plugins]\npolicy = {}\n[servers.x]\n", "[plugins]\npolicy = { enabled = true }\n[servers.x]\n"),
        ("[plugins]\npii.a = 1\n", "[plugins]\npii.a = 1\n\n[plugins.policy]\nenabled = true\n"),
        ("plugins.pii.a = 1\nlog = {}\n", "plugins.policy.enabled = true\nplugins.pii.a = 1\nlog = {}\n"),
        ("\ufeff# mine\r\n", "\ufeff# mine\r\n\r\n[plugins.policy]\r\nenabled = true\r\n"),
        ("[servers.x]\ncommand = 'x'", "[servers.x]\ncommand = 'x'\n\n[plugins.policy]\nenabled = true"),
        (
            "x = '''\n[plugins.policy]\nenabled = false\n'''\n",
            "x = '''\n[plugins.policy]\nenabled = false\n'''\n\n[plugins.policy]\nenabled = true\n",
        ),
        ("", "[plugins.policy]\nenabled = true\n"),
    ],
)
def test_one_key_changes_and_everything_else_stays(before: str, after: str, write: Callable[[str], Path]) -> None:
    path = write(before)
    assert set_enabled(path, ["policy"], enabled=True) == ["policy"]
    assert text_of(path) == after
    assert list(path.parent.iterdir()) == [path]


@settings(max_examples=300)
@given(
    DOCUMENTS,
    st.dictionaries(
        st.sampled_from(["policy", "pii", "x"]),
        st.fixed_dictionaries(
            {},
            optional={"enabled": st.booleans(), "mode": st.just("audit"), "config": DOCUMENTS, "hooks": st.just([{}])},
        ),
    ),
    st.booleans(),
    CHANCES,
)
def test_of_any_layout_one_key_changes_and_every_other_character_stays(
    tmp_path_factory: pytest.TempPathFactory,
    data: dict[str, Any],
    plugins: dict[str, Any],
    enabled: bool,
    chance: Random,
) -> None:
    data = {**data, "plugins": plugins}
    before = Writer(data, chance).text
    path = tmp_path_factory.mktemp("config") / "midspan.toml"
    path.write_bytes(before.encode())
    changed = set_enabled(path, ["policy", "pii"], enabled=enabled)
    wanted = {name: {**plugins.get(name, {}), "enabled": enabled} for name in ("policy", "pii")}
    assert changed == [name for name in wanted if plugins.get(name, {}).get("enabled") is not enabled]
    assert said(path) == {**data, "plugins": {**plugins, **wanted}}
    # What is left when the booleans and what was added are taken out: all that a person wrote, in its order.
    kept = iter(text_of(path))
    assert all(character in kept for character in re.sub(r"\b(?:true|false)\b", "", before))
    assert text_of(path).count("\r") == (text_of(path).count("\n") if "\r" in before else 0)


def test_several_tables_change_at_once_and_the_others_are_told_as_they_were(write: Callable[[str], Path]) -> None:
    path = write("[plugins.a]\nenabled = true\n[plugins.b]\nenabled = false\n[plugins.c]\n")
    assert set_enabled(path, ["a", "b", "c"], enabled=False) == ["a", "c"]
    assert text_of(path) == "[plugins.a]\nenabled = false\n[plugins.b]\nenabled = false\n[plugins.c]\nenabled = false\n"


def test_a_file_that_says_so_already_is_not_touched(write: Callable[[str], Path]) -> None:
    path = write("[plugins.policy]\nenabled = true\n")
    before = path.stat()
    assert set_enabled(path, ["policy"], enabled=True) == []
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_new_file_and_its_folder_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "config" / "midspan" / "midspan.toml"
    set_enabled(path, ["policy"], enabled=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert text_of(path) == "[plugins.policy]\nenabled = true\n"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660])
def test_the_mode_of_the_file_stays(mode: int, write: Callable[[str], Path]) -> None:
    path = write("")
    path.chmod(mode)
    set_enabled(path, ["policy"], enabled=True)
    assert path.stat().st_mode & 0o777 == mode


def test_a_symbolic_link_stays_one_and_the_file_behind_it_changes(tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "guards.toml").write_text("[plugins.policy]\n")
    link = tmp_path / "midspan.toml"
    link.symlink_to("dotfiles/guards.toml")
    set_enabled(link, ["policy"], enabled=True)
    assert link.is_symlink()
    assert text_of(dotfiles / "guards.toml") == "[plugins.policy]\nenabled = true\n"
    assert [path.name for path in dotfiles.iterdir()] == ["guards.toml"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[plugins.policy]\nenabled = 'yes'\n", ":2:1: plugins.policy.enabled: must be true or false"),
        ("[plugins]\npolicy = 3\n", ":2:1: plugins.policy: must be a table"),
        ("[[plugins]]\n", ":1:3: plugins: must be a table"),
        ("[plugins.policy\n", ":1:16: the name of a table is closed by a bracket: [table]"),
    ],
)
def test_a_wrong_file_is_refused_and_stays(text: str, problem: str, write: Callable[[str], Path]) -> None:
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        set_enabled(path, ["pii", "policy"], enabled=True)
    assert str(caught.value) == f"{path}{problem}"
    assert text_of(path) == text


def test_a_read_only_file_is_refused_and_stays(write: Callable[[str], Path]) -> None:
    path = write("[plugins.policy]\n")
    path.chmod(0o444)
    with pytest.raises(ConfigError) as caught:
        set_enabled(path, ["policy"], enabled=True)
    assert str(caught.value) == f"{path}: cannot be changed: it is read-only"
    assert text_of(path) == "[plugins.policy]\n"


@contextmanager
def as_nobody(folder: Path) -> Generator[None]:
    """Own a folder as a user who may not do everything; nothing is read-only to root."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_folder_is_refused_and_nothing_is_left_in_it() -> None:
    with TemporaryDirectory() as name:  # outside of pytest's, which others may not enter
        path = Path(name) / "midspan.toml"
        path.write_text("[plugins.policy]\n")
        path.parent.chmod(0o500)
        try:
            with as_nobody(path.parent), pytest.raises(ConfigError) as caught:
                set_enabled(path, ["policy"], enabled=True)
        finally:
            path.parent.chmod(0o700)
        assert str(caught.value) == f"{path}: cannot be changed: Permission denied"
        assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "midspan.toml"
    with pytest.raises(ConfigError, match=r"midspan\.toml: cannot be read: Not a directory$"):
        set_enabled(path, ["policy"], enabled=True)
