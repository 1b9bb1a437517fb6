from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from midspan.cli._group import invoke

Install = Callable[..., Path]

GUARD = """
from pydantic import BaseModel, Field
from midspan_sdk import Command, hookimpl, mutator, sink, validator

class Settings(BaseModel, extra="forbid"):
    words: list[str] = Field(description="what is denied")
    strict: bool = False

@validator(events=["tools/call"], phase="request", mode="audit")
def check(payload): ...

@mutator(events=["tools/call", "prompts/get"], phase="both", priority_hint={"request": 5}, fail_open=True)
def restore(payload): ...

@sink(events=["*"], phase="response", timeout=2.5)
def tap(payload): ...

class Log:
    name = "log"
    durable = True
    async def observe(self, record): ...

@hookimpl
def midspan_config(): return Settings

@hookimpl
def midspan_interceptors(): return [check, restore, tap]

@hookimpl
def midspan_observers(): return [Log()]

def count(arguments):
    print("arguments:", *arguments)
    return len(arguments)

@hookimpl
def midspan_commands(): return [Command(name="count", help="Count the arguments.", run=count)]
"""
EASY = GUARD.replace("words: list[str] = Field(", "words: list[str] = Field(['rm'], ")


@pytest.fixture
def guard(fake_distribution: Install) -> Callable[[str], None]:
    def install(source: str = GUARD) -> None:
        fake_distribution(
            "midspan-guard", version="2.1", plugins={"guard": "fake_guard"}, modules={"fake_guard": source}
        )

    return install


def out(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert invoke(arguments) == code
    return capsys.readouterr().out


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# plugins list


def test_the_list_is_plain_and_aligned_when_piped(
    guard: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    guard()
    text = out(["plugins", "list", "--plugin", "guard", "--no-plugin", "policy"], capsys)
    assert "\x1b" not in text
    rows = cells(text)
    assert rows[0] == ["ID", "DISTRIBUTION", "VERSION", "STATE", "REASON"]
    assert ["guard", "midspan-guard", "2.1", "enabled"] in rows
    assert ["policy", "midspan-policy", "0.1.0", "blocked", "--no-plugin", "policy"] in rows
    starts = {line.index(row[1]) for line, row in zip(text.splitlines(), rows, strict=True)}
    assert len(starts) == 1
    assert "fake_guard" not in sys.modules


def test_the_json_has_a_row_for_every_plugin_with_the_same_keys(
    guard: Callable[..., None], fake_distribution: Install, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    guard()
    fake_distribution("midspan-old", plugins={"old": "fake_old"}, requires=["midspan-sdk<0.1"])
    config = tmp_path / "midspan.toml"
    config.write_text("[plugins.guard]\nenabled = true\n")
    rows = json.loads(out(["plugins", "list", "--json", "--config", str(config)], capsys))
    assert {
        "id": "guard",
        "distribution": "midspan-guard",
        "version": "2.1",
        "state": "enabled",
        "reason": None,
        "entry_point": "fake_guard",
    } in rows
    assert all(list(row) == ["id", "distribution", "version", "state", "reason", "entry_point"] for row in rows)
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    (old,) = [row for row in rows if row["id"] == "old"]
    assert old["state"] == "incompatible"
    assert old["reason"].startswith("requires midspan-sdk<0.1; midspan-sdk 0.1")


def test_what_would_stop_a_start_is_told_and_the_list_is_still_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["plugins", "list", "--plugin", "polcy", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)
    assert captured.err.startswith("midspan: warning: plugin 'polcy': no installed plugin has this id; did you mean")


# plugins show


def test_show_tells_all_that_a_plugin_contributes(
    guard: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    guard(EASY)
    rows = cells(out(["plugins", "show", "guard"], capsys))
    assert rows[0] == ["guard", "midspan-guard", "2.1", "available"]
    assert ["guard.check", "validator", "audit", "-", "no", "1s", "tools/call", "(request)"] in rows
    hooks = ["tools/call", "prompts/get", "(request,", "response)"]
    assert ["guard.restore", "mutator", "active", "5/0", "yes", "1s", *hooks] in rows
    assert ["guard.tap", "sink", "-", "-", "-", "2.5s", "*", "(response)"] in rows
    assert ["guard.log", "durable"] in rows
    assert ["words", "list", "of", "texts", "default", '["rm"]', "what", "is", "denied"] in rows
    assert ["strict", "true", "or", "false", "default", "false"] in rows
    assert ["midspan", "guard", "count", "Count", "the", "arguments."] in rows


def test_show_of_a_plugin_that_needs_config_says_which(
    guard: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    guard()
    text = out(["plugins", "show", "guard"], capsys)
    assert "not known, since they cannot be built: plugins.guard.config.words: is missing; accepted: list of" in text
    assert ["words", "list", "of", "texts", "required", "what", "is", "denied"] in cells(text)
    assert "guard.check" not in text


def test_show_uses_the_config_and_the_policy_of_each_instance(
    guard: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    guard()
    config = tmp_path / "midspan.toml"
    config.write_text(
        "[plugins.prod]\nenabled = true\nuse = 'guard'\nmode = 'active'\nconfig.words = ['dd']\n"
        "[plugins.dev]\nuse = 'guard'\nconfig.words = []\ninterceptors.tap.timeout = '7s'\n"
    )
    rows = cells(out(["plugins", "show", "guard", "--config", str(config)], capsys))
    assert rows[0][-1] == "enabled"
    assert ["prod.check", "validator", "active", "-", "no", "1s", "tools/call", "(request)"] in rows
    assert ["dev.check", "validator", "audit", "-", "no", "1s", "tools/call", "(request)"] in rows
    assert ["dev.tap", "sink", "-", "-", "-", "7s", "*", "(response)"] in rows


def test_show_works_for_what_no_mount_of_this_version_gives(
    guard: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    guard(EASY.replace("def check(payload)", "def check(payload, tools)"))
    assert "guard.check" in out(["plugins", "show", "guard"], capsys)


@pytest.mark.parametrize(
    ("plugin", "words"),
    [("gaurd", "no installed plugin has this id; did you mean 'guard'?"), ("guard", "cannot be imported: ValueError")],
)
def test_show_of_a_plugin_that_cannot_be_shown_is_one_line(
    plugin: str, words: str, guard: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    guard("raise ValueError")
    assert invoke(["plugins", "show", plugin]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"midspan: error: plugin {plugin!r}")
    assert words in captured.err
    assert captured.err.count("\n") == 1


# midspan <plugin id> ...


def test_a_plugins_command_gets_its_arguments_and_gives_the_exit_code(
    guard: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    guard()
    assert out(["guard", "count", "a", "--help", "-x", "--", "b"], capsys, code=5) == "arguments: a --help -x -- b\n"
    assert out(["guard", "count"], capsys, code=0) == "arguments:\n"


def test_the_help_of_a_plugins_id_lists_its_commands(
    guard: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    guard()
    assert ["count", "Count", "the", "arguments."] in cells(out(["guard", "--help"], capsys))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name="count"', 'name="amount"', "No such command 'count'. Did you mean 'amount'?"),
        ("return len(arguments)", "pass", "the command 'count' returned NoneType; return the exit code"),
        ('name="count"', 'name="count it"', "midspan_commands: 'count it' is not one word"),
        ("run=count)]", "run=3)]", "midspan_commands: the command 'count' cannot be called"),
        ("run=count)]", "run=count)] * 2", "midspan_commands: two commands are called 'count'; rename one"),
        ("run=count)]", "run=count)][0]", "midspan_commands returned an object of type Command; return a list of"),
        ("run=count)]", "run=count)][1:]", "offers no commands"),
    ],
)
def test_a_command_that_cannot_run_is_one_line(
    old: str, new: str, words: str, guard: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    guard(GUARD.replace(old, new))
    assert invoke(["guard", "count"]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_a_crash_of_a_plugins_command_is_a_traceback(guard: Callable[[str], None]) -> None:
    guard(GUARD.replace("return len(arguments)", "raise KeyError('theirs')"))
    with pytest.raises(KeyError, match="theirs"):
        invoke(["guard", "count"])


def test_commands_of_a_contested_id_are_not_run(
    guard: Callable[..., None], fake_distribution: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    guard()
    fake_distribution("evil-guard", plugins={"guard": "evil_guard"}, modules={"evil_guard": GUARD})
    assert invoke(["guard", "count"]) == 2
    assert "evil-guard 1.0 and midspan-guard 2.1 bring the same id" in capsys.readouterr().err
    assert not {"fake_guard", "evil_guard"} & sys.modules.keys()


def test_a_plugin_named_like_a_command_does_not_take_its_place(
    fake_distribution: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_distribution("midspan-plugins", plugins={"plugins": "fake_plugins"}, modules={"fake_plugins": GUARD})
    assert ["plugins", "midspan-plugins", "1.0", "available"] in cells(out(["plugins", "list"], capsys))
    assert "fake_plugins" not in sys.modules
