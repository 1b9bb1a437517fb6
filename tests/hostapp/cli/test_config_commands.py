"""`midspan config`: where the file is, a first one, its schema."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from midspan.cli._group import COMMANDS, invoke
from midspan.config import load_config, user_config

Install = Callable[..., Path]

GUARD = '''
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from midspan_sdk import hookimpl
from pydantic import AnyUrl, BaseModel, Field, SecretStr

class Colour(Enum):
    RED = "red"

class Rule(BaseModel):
    name: str
    depth: int = Field(ge=3)
    note: str | None = None

class GuardConfig(BaseModel):
    """What the guard does.

    Attributes:
        words: what is denied;
            more than one line.
    """
    words: Annotated[list[str], Field(min_length=2)]
    rule: Rule
    rules: list[Rule]
    level: Annotated[int, Field(gt=3)]
    code: Annotated[str, Field(min_length=12)]
    kind: Literal["hard", "soft"]
    where: Path
    until: date
    site: AnyUrl
    token: SecretStr
    spoken: str = Field(description="What it says.", default='a "quoted"\\nword \\x7f \\\\ é')
    every: timedelta = timedelta(seconds=90)
    share: float = 0.5
    paint: Colour = Colour.RED
    known: dict[str, Any] = {"a b": [1, {"c": None, "d": True}]}
    made: list[str] = Field(default_factory=lambda: ["x"])
    hidden: SecretStr = SecretStr("hunter2-s3cr3t")
    small: float = 1e-7
    plain: str = Field(default="x", alias="spelt-otherwise")

@hookimpl
def midspan_config():
    return GuardConfig
'''


BARE = """
from midspan_sdk import hookimpl

@hookimpl
def midspan_interceptors(config, instance):
    return []
"""


@pytest.fixture
def guard(fake_distribution: Install) -> None:
    """Install a plugin whose config has keys of all kinds, one that has none, and two that cannot be used."""
    fake_distribution("midspan-guard", plugins={"guard": "fake_full_guard"}, modules={"fake_full_guard": GUARD})
    fake_distribution("midspan-bare", plugins={"bare": "fake_bare"}, modules={"fake_bare": BARE})
    fake_distribution(
        "midspan-lame", plugins={"lame": "fake_lame"}, modules={"fake_lame": "import nowhere_to_be_found"}
    )
    source = (
        "from collections.abc import Callable\nfrom midspan_sdk import hookimpl\n"
        "from pydantic import BaseModel\n"
        "class Odd(BaseModel):\n    call: Callable[[], None]\n"
        "@hookimpl\ndef midspan_config():\n    return Odd\n"
    )
    fake_distribution("midspan-odd", plugins={"odd": "fake_odd"}, modules={"fake_odd": source})


def out(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> tuple[str, str]:
    assert invoke(arguments) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def home() -> Path:
    place = user_config()
    assert place is not None
    return place


# init


def test_init_writes_where_the_config_is_looked_for_and_only_its_owner_reads_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed, err = out(["config", "init"], capsys)
    assert printed == f"wrote {home()}; next: enable a plugin in it, then run `midspan check`\n"
    assert err == ""
    assert stat.S_IMODE(home().stat().st_mode) == 0o600
    assert stat.S_IMODE(home().parent.stat().st_mode) == 0o700
    text = home().read_text("utf-8")
    assert f"Written to {home()}, where midspan looks for it." in " ".join(text.split("\n# "))
    config = load_config()
    assert {"audit", "policy", "secrets"} <= set(config.plugins)
    assert not any(table.enabled for table in config.tables.values())
    assert out(["plugins", "list"], capsys)[1] == ""


def test_init_writes_where_the_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIDSPAN_CONFIG", str(tmp_path / "conf" / "m.toml"))
    out(["config", "init"], capsys)
    assert load_config().source.path == tmp_path / "conf" / "m.toml"


def test_init_replaces_no_file_unless_it_must_and_keeps_it_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "midspan.toml"
    file.write_text("# mine\n")
    _, err = out(["config", "init", "--output", str(file)], capsys, code=2)
    assert err == (f"midspan: error: {file}: is there already; --force replaces it, and keeps it as midspan.toml.bak\n")
    assert file.read_text() == "# mine\n"
    printed, _ = out(["config", "init", "--output", str(file), "--force"], capsys)
    backup = tmp_path / "midspan.toml.bak"
    assert f"kept what was there as {backup};" in printed
    assert backup.read_text() == "# mine\n"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    load_config(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["midspan.toml", "midspan.toml.bak"]


def test_init_leaves_a_link_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text("# mine\n")
    home().parent.mkdir(parents=True)
    home().symlink_to(kept)
    out(["config", "init", "--force"], capsys)
    assert home().is_symlink()
    assert "[plugins.policy]" in kept.read_text("utf-8")


def test_init_says_why_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none" / "midspan.toml"
    _, err = out(["config", "init", "--output", str(file)], capsys, code=2)
    assert err == f"midspan: error: {file}: cannot be written: No such file or directory\n"


def test_init_prints_it_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    printed, err = out(["config", "init", "--output", "-"], capsys)
    assert err == ""
    assert "Written to" not in printed
    assert not home().exists()
    assert printed.startswith("# The config of midspan, begun by `midspan config init` (midspan ")
    tomllib.loads(printed)


def test_init_says_of_each_plugin_and_key_what_it_is(guard: None, capsys: pytest.CaptureFixture[str]) -> None:
    printed, err = out(["config", "init", "--output", "-"], capsys)
    for lines in (
        "[plugins.bare]\nenabled = false\n\n",
        "# What is denied; more than one line. (list of texts, required)\n#words = [",
        '# What it says. (text, default)\n#spoken = "a \\"quoted\\"\\nword \\u007f \\\\ é"\n',
        '#made = ["x"]\n',
        '#known = { "a b" = [1, { d = true }] }\n',
        '#spelt-otherwise = "x"\n',
        '#chain_timeout = "10s"\n',
        "# The longest message of a server or client. A server's own table wins.\n",
        "[plugins.policy]\nenabled = false\n",
        "[plugins.lame]\nenabled = false\n\n",
    ):
        assert lines in printed, lines
    assert "hunter2" not in printed + err
    assert "(midspan-policy " in printed
    assert [line.split(" (")[0] for line in err.splitlines()] == [
        "midspan: warning: plugin 'lame'",
        "midspan: warning: plugin 'odd'",
    ]
    assert "nowhere_to_be_found" in err


def commented(text: str) -> Iterator[int]:
    """Yield the numbers of the lines that are keys or headers, commented out."""
    for number, line in enumerate(text.splitlines()):
        if re.match(r'#[\["A-Za-z]', line):
            yield number


def schema(capsys: pytest.CaptureFixture[str]) -> Any:
    printed, _ = out(["config", "schema", "--plugins"], capsys)
    return jsonschema.Draft202012Validator(json.loads(printed))


def test_all_that_init_comments_out_is_valid_once_it_is_not(
    guard: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FILES_TOKEN", "x")
    monkeypatch.setenv("SEARCH_TOKEN", "x")
    printed, _ = out(["config", "init", "--output", "-"], capsys)
    lines = printed.splitlines()
    numbers = list(commented(printed))
    assert len(numbers) > 50
    for number in numbers:
        lines[number] = lines[number].removeprefix("#")
    text = "\n".join(lines) + "\n"
    data = tomllib.loads(text)
    assert [error.message for error in schema(capsys).iter_errors(data)] == []
    file = tmp_path / "midspan.toml"
    file.write_text(text, "utf-8")
    config = load_config(file)
    assert set(config.servers) == {"files", "search"}
    for server in config.servers:
        config.server(server)
    # The placeholders of required keys are values that the plugin's model takes.
    file.write_text(text.replace("[plugins.guard]\nenabled = false", "[plugins.guard]\nenabled = true"), "utf-8")
    shown, _ = out(["plugins", "show", "guard", "--config", str(file)], capsys)
    assert "cannot be built" not in shown
    assert "No interceptors" in shown


def test_each_line_that_init_comments_out_is_a_key_of_its_table(
    guard: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, _ = out(["config", "init", "--output", "-"], capsys)
    lines = printed.splitlines()
    validator = schema(capsys)
    for number in commented(printed):
        if lines[number].startswith(("#[", "#command", "#url")) or "[servers" in "".join(lines[:number][-20:]):
            continue
        one = [*lines[:number], lines[number].removeprefix("#"), *lines[number + 1 :]]
        wrong = [error.message for error in validator.iter_errors(tomllib.loads("\n".join(one)))]
        assert [message for message in wrong if "is a required property" not in message] == [], lines[number]


def test_nothing_changes_when_defaults_are_no_longer_commented_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, _ = out(["config", "init", "--output", "-"], capsys)
    host = printed[printed.index("\n[gateway]\n") : printed.index("# Plugins.")]
    host = re.sub(r"^#(?=[a-z])", "", host, flags=re.MULTILINE)
    host = "\n".join(line for line in host.splitlines() if not line.startswith(("ask_timeout", "levels")))
    file = tmp_path / "midspan.toml"
    file.write_text(host, "utf-8")
    from midspan.config import Settings

    assert load_config(file).settings == Settings()


@pytest.mark.skipif("check" not in COMMANDS, reason="`midspan check` is not there yet")
def test_check_has_nothing_to_say_of_what_init_writes(capsys: pytest.CaptureFixture[str]) -> None:
    out(["config", "init"], capsys)
    _, err = out(["check"], capsys)
    assert "error" not in err


# schema


def test_schema_prints_what_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    printed, err = out(["config", "schema"], capsys)
    published = Path(__file__).parents[3] / "docs/reference/midspan.schema.json"
    assert printed == published.read_text("utf-8")
    assert err == ""


def test_schema_with_plugins_leaves_out_those_that_cannot_be_used_and_says_so(
    guard: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schema.json"
    printed, err = out(["config", "schema", "--plugins", "--output", str(file)], capsys)
    assert printed == ""
    found = json.loads(file.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(found)
    assert set(found["properties"]["plugins"]["properties"]) >= {"audit", "guard", "policy", "secrets"}
    assert "odd" not in found["properties"]["plugins"]["properties"]
    first, second = err.splitlines()
    assert first.startswith(
        "midspan: warning: plugin 'lame' (midspan-lame 1.0): cannot be imported: ModuleNotFoundError"
    )
    assert first.endswith("; left out")
    assert second.startswith("midspan: warning: plugin 'odd' (midspan-odd 1.0): its config cannot be described: ")
    assert "hunter2" not in file.read_text("utf-8")


def test_schema_says_why_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none" / "schema.json"
    _, err = out(["config", "schema", "--output", str(file)], capsys, code=2)
    assert err == f"midspan: error: {file}: cannot be written: No such file or directory\n"


# path


def test_path_names_the_file_of_the_config_folder(capsys: pytest.CaptureFixture[str]) -> None:
    printed, err = out(["config", "path"], capsys)
    assert printed == ""
    assert err == (
        "--config        not given\n"
        "MIDSPAN_CONFIG  not set\n"
        f"config folder   {home()}: no such file\n"
        "no config file is read; `midspan config init` writes one\n"
    )
    home().parent.mkdir(parents=True)
    home().write_text("include = ['more.toml']\n")
    (home().parent / "more.toml").write_text("[plugins.x]\n")
    printed, err = out(["config", "path"], capsys)
    assert printed == f"{home()}\n"
    assert err.endswith(f"config folder   {home()}: read\nincludes        {home().parent / 'more.toml'}\n")


def test_path_says_which_of_several_comes_first_and_that_the_working_folder_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("midspan.toml", "variable.toml", "named.toml"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIDSPAN_CONFIG", str(tmp_path / "variable.toml"))
    printed, err = out(["config", "path"], capsys)
    assert printed == f"{tmp_path / 'variable.toml'}\n"
    assert err == (
        "midspan: warning: ./midspan.toml is not read: midspan reads no config from the working directory; name it "
        "with --config if it is yours\n"
        "--config        not given\n"
        f"MIDSPAN_CONFIG  {tmp_path / 'variable.toml'}: read\n"
        f"config folder   {home()}: not read, MIDSPAN_CONFIG comes first\n"
    )
    printed, err = out(["config", "path", "--config", "named.toml"], capsys)
    assert printed == "named.toml\n"
    assert f"MIDSPAN_CONFIG  {tmp_path / 'variable.toml'}: not read, --config comes first\n" in err


def test_path_of_a_broken_file_is_still_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "midspan.toml"
    file.write_text("x = \n")
    printed, err = out(["config", "path", "--config", str(file)], capsys)
    assert printed == f"{file}\n"
    assert f"midspan: warning: {file}:1:5: " in err
    _, err = out(["config", "path", "--config", str(tmp_path / "none")], capsys, code=2)
    assert err == f"midspan: error: {tmp_path / 'none'}: no such file (named by --config)\n"
