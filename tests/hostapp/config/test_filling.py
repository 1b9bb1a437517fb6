from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from midspan.config import ConfigSource, filled, load_config
from midspan.errors import ConfigError

ENVIRON = {"TOKEN": "s3cr3t", "EMPTY": "", "DOLLAR": "a${TOKEN}$"}


def fill(value: Any, **options: Any) -> Any:
    return filled({"x": value}, ENVIRON, ConfigSource(), "plugins", "p", "config", **options).table["x"]


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("${TOKEN}", "s3cr3t"),
        ("Bearer ${TOKEN}!", "Bearer s3cr3t!"),
        ("${NONE:-core}", "core"),
        ("${EMPTY:-core}", "core"),
        ("${EMPTY}", ""),
        ("${TOKEN:-core}", "s3cr3t"),
        ("${DOLLAR}", "a${TOKEN}$"),
        ("$${TOKEN}", "${TOKEN}"),
        ("^a$", "^a$"),
        ("$$", "$$"),
        ("$TOKEN", "$TOKEN"),
        ("file:///etc/*", "file:///etc/*"),
        ("$file:/etc/passwd", "file:/etc/passwd"),
        (["${TOKEN}", 3, {"y": "${TOKEN}"}], ["s3cr3t", 3, {"y": "s3cr3t"}]),
        ({"${TOKEN}": 1}, {"${TOKEN}": 1}),
        (True, True),
    ],
)
def test_variables_are_replaced_and_everything_else_stays(written: Any, means: Any) -> None:
    assert fill(written) == means


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k3y\n")
    assert fill(f"file:{tmp_path}/key") == "k3y"
    assert fill(f"file:{tmp_path}/key", files=False) == f"file:{tmp_path}/key"


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (["a", "${NONE}"], "plugins.p.config.x[1]: needs the environment variable NONE, which is not set; set it, or "),
        ({"y": "${2}"}, "plugins.p.config.x.y: must have {NAME} or {NAME:-default} behind `$`; write `$${` for the "),
        ("${TOKEN", "plugins.p.config.x: must have {NAME} or {NAME:-default} behind `$`"),
        ("file:relative", "plugins.p.config.x: the path must be absolute, or begin with `~`"),
        ("file:/no/such/file", "plugins.p.config.x: the file that it names cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_replaced_names_the_key(written: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fill(written)
    assert str(caught.value).startswith(says)


def test_values_from_elsewhere_are_taken_out_of_messages(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k3y-k3y")
    given = filled({"a": "x ${TOKEN}", "b": f"file:{tmp_path}/key"}, ENVIRON, ConfigSource())
    assert given.without_values("no 's3cr3t' and no k3y-k3y here") == "no '***' and no *** here"
    assert "s3cr3t" not in repr(given)


def test_the_host_s_own_texts_have_variables_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODE", "audit")
    file = tmp_path / "midspan.toml"
    file.write_text(
        "[plugins.pii]\nmode = '${MODE}'\ntimeout = '${SLOW:-2s}'\n[plugins.pii.config]\nx = '${NOT_SET}'\n"
        "[limits]\nmax_message = '${MOST:-1MiB}'\n"
    )
    config = load_config(file)
    assert (config.plugins["pii"].mode, config.plugins["pii"].timeout) == ("audit", 2000)
    assert config.settings.limits.max_message == 1024 * 1024
    assert config.plugins["pii"].config == {"x": "${NOT_SET}"}  # replaced when the plugin is built


def test_a_variable_that_is_not_set_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "midspan.toml"
    file.write_text("[plugins.pii]\nmode = '${NO_SUCH_MODE}'\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}:2:1: plugins.pii.mode: needs the environment variable NO_SUCH_MODE")
