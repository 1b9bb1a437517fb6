from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from midspan.config import Config, load_config
from midspan.errors import ConfigError, OperatorError

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file beside the others and return its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refused(path: Path) -> str:
    with pytest.raises(OperatorError) as caught:
        load_config(path)
    return str(caught.value).replace(f"{path.parent}/", "")


def test_tables_of_all_files_come_together_in_order(write: Write) -> None:
    write("team.toml", 'requires = ["midspan-pii>=1"]\n[plugins.team]\n[servers.files]\ncommand = "x"\n')
    write("conf.d/b.toml", "[plugins.b]\n")
    write("conf.d/a.toml", "[plugins.a]\nmode = 'audit'\n")
    main = write(
        "midspan.toml",
        'include = ["team.toml", "conf.d/*.toml"]\nrequires = ["midspan-acme"]\n'
        '[gateway]\ndenials = "error"\n[plugins.own]\n',
    )
    config = load_config(main)
    assert list(config.plugins) == ["own", "team", "a", "b"]
    assert config.plugins["a"].mode == "audit"
    assert config.settings.requires == ["midspan-acme", "midspan-pii>=1"]
    assert config.server("files").max_message == 64 * 1024 * 1024
    assert config.settings.gateway.denials == "error"


def test_an_included_file_may_include_and_paths_are_relative_to_the_file_that_names_them(write: Write) -> None:
    write("sub/deep/c.toml", "[plugins.c]\n")
    write("sub/b.toml", 'include = ["deep/c.toml"]\n[plugins.b]\n')
    assert list(load_config(write("midspan.toml", 'include = ["sub/b.toml"]\n')).plugins) == ["b", "c"]


def test_a_variable_and_a_home_lead_to_a_file(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("b.toml", "[plugins.b]\n")
    write("home/c.toml", "[plugins.c]\n")
    monkeypatch.setenv("TEAM", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    config = load_config(write("midspan.toml", 'include = ["${TEAM}/b.toml", "~/c.toml"]\n'))
    assert list(config.plugins) == ["b", "c"]


def test_nothing_is_read_from_the_working_directory(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("elsewhere/b.toml", "[plugins.evil]\n")
    main = write("main/midspan.toml", 'include = ["b.toml"]\n')
    write("main/b.toml", "[plugins.b]\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert list(load_config(main).plugins) == ["b"]


def test_a_folder_without_a_file_that_matches_is_no_mistake(write: Write) -> None:
    config: Config = load_config(write("midspan.toml", 'include = ["conf.d/*.toml"]\n'))
    assert config.plugins == {}
    assert [path.name for path in config.source.patterns] == ["*.toml"]


def test_what_is_wrong_in_an_included_file_is_told_of_that_file(write: Write) -> None:
    write("b.toml", "\n[plugins.b]\nmod = 'audit'\n")
    assert refused(write("midspan.toml", 'include = ["b.toml"]\n')) == (
        "b.toml:3:1: plugins.b.mod: unknown key; did you mean 'mode'?"
    )


def test_a_requirement_of_an_included_file_is_told_by_its_place_there(write: Write) -> None:
    write("b.toml", 'requires = ["fine", "not a requirement"]\n')
    assert refused(write("midspan.toml", 'include = ["b.toml"]\nrequires = ["one", "two"]\n')) == (
        'b.toml:1:21: requires[1]: must be a requirement, such as "midspan-pii>=0.2"'
    )


@pytest.mark.parametrize(
    ("main", "others", "says"),
    [
        ('include = "b.toml"', {}, 'midspan.toml:1:1: include: must be a list of files, such as ["team.toml", '),
        ("include = [3]", {}, "midspan.toml:1:12: include[0]: must be the path of a file, in quotes"),
        ('include = ["b.toml"]', {}, "midspan.toml:1:12: include[0]: b.toml cannot be read: No such file or directory"),
        (
            'include = ["*/b.toml"]',
            {},
            "midspan.toml:1:12: include[0]: only the last part of a path may have `*`, `?` or `[` in it",
        ),
        ('include = ["${NO_SUCH}/b"]', {}, "midspan.toml:1:12: include[0]: needs the environment variable NO_SUCH"),
        ('include = ["midspan.toml"]', {}, "midspan.toml:1:12: include[0]: includes this file itself; leave it out"),
        (
            'include = ["b.toml"]',
            {"b.toml": 'include = ["midspan.toml"]'},
            "b.toml:1:12: include[0]: midspan.toml includes this file; one of the two cannot include the other",
        ),
        (
            'include = ["b.toml", "b.toml"]',
            {"b.toml": ""},
            "midspan.toml:1:22: include[1]: b.toml is included already; name it once",
        ),
        (
            'include = ["b.toml"]\n[plugins.pii]\nenabled = true',
            {"b.toml": "[plugins.pii]\nenabled = false"},
            "b.toml:1:10: plugins.pii: stands in midspan.toml too; keep one of the two",
        ),
        (
            'include = ["b.toml"]\n[gateway]',
            {"b.toml": "[gateway]"},
            "b.toml:1:2: gateway: stands in midspan.toml too; keep one of the two",
        ),
        ('include = ["b.toml"]', {"b.toml": "x = ["}, "b.toml:1: "),
    ],
)
def test_an_include_that_cannot_be_followed_is_one_line(
    main: str, others: dict[str, str], says: str, write: Write
) -> None:
    for name, text in others.items():
        write(name, text)
    assert refused(write("midspan.toml", main + "\n")).startswith(says)


def test_a_broken_include_is_a_config_error_with_attributes(write: Write) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write("midspan.toml", 'include = ["b.toml"]\n'))
    assert (caught.value.key, caught.value.line, caught.value.column) == ("include[0]", 1, 12)
