from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from midspan.errors import PluginError
from midspan.plugins import Builder, PluginInfo, discover, load

Install = Callable[..., Path]

GOOD = """
from midspan_sdk import hookimpl, validator

@validator(events=["tools/call"], phase="request")
def check(payload):
    return "no" if "rm" in str(payload) else None

@hookimpl
def midspan_interceptors():
    return [check]
"""
UNKNOWN_HOOK = GOOD + "\n@hookimpl\ndef midspan_interceptor(): return []\n"
ASYNC_HOOK = GOOD.replace("def midspan_interceptors", "async def midspan_interceptors")
WRONG_TYPE = GOOD.replace("return [check]", "return check")
RAISES = "raise ValueError('no\\nlicence')\n"


def info(plugin: str) -> PluginInfo:
    (found,) = [each for each in discover() if each.id == plugin]
    return found


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (RAISES, "cannot be imported: ValueError: no licence ("),
        (UNKNOWN_HOOK, "unknown hook midspan_interceptor; did you mean 'midspan_interceptors'?"),
        (ASYNC_HOOK, "midspan_interceptors must be a plain function; put async work in the interceptor it returns"),
        (WRONG_TYPE, "midspan_interceptors returned the interceptor 'check' itself; return a list of interceptors"),
    ],
    ids=["raises at import", "unknown hook", "async hook", "wrong type"],
)
def test_an_enabled_plugin_that_is_wrong_stops_the_start_and_an_available_one_is_not_imported(
    source: str, words: str, fake_distribution: Install
) -> None:
    fake_distribution("midspan-wrong", version="1.4", plugins={"wrong": "fake_wrong"}, modules={"fake_wrong": source})
    fake_distribution("midspan-good", plugins={"good": "fake_good"}, modules={"fake_good": GOOD})

    assembly = Builder(plugins=["good"]).assembly()
    assert [entry.name for entry in assembly.chain.entries] == ["good.check"]
    assert "fake_good" in sys.modules
    assert "fake_wrong" not in sys.modules

    with pytest.raises(PluginError) as caught:
        Builder(plugins=["good", "wrong"]).assembly()
    error = caught.value
    assert (error.plugin, error.distribution, error.version) == ("wrong", "midspan-wrong", "1.4")
    assert str(error).startswith(f"plugin 'wrong' (midspan-wrong 1.4): {words}")
    assert str(error).endswith("(to start without it: --no-plugin wrong)")
    assert "\n" not in str(error)

    assert not Builder(plugins=["good", "wrong"], no_plugins=["wrong"]).assembly().empty


def test_two_distributions_with_one_id_stop_the_start_and_neither_is_imported(fake_distribution: Install) -> None:
    fake_distribution("midspan-pii", plugins={"pii": "fake_pii"}, modules={"fake_pii": GOOD})
    fake_distribution("other-pii", plugins={"pii": "other_pii"}, modules={"other_pii": GOOD})
    with pytest.raises(PluginError, match=r"^plugin 'pii': midspan-pii 1\.0 and other-pii 1\.0 bring the same id"):
        Builder(plugins=["pii"]).assembly()
    assert not {"fake_pii", "other_pii"} & sys.modules.keys()
    assert Builder().assembly().empty


def test_the_line_of_the_plugin_that_raised_is_named(fake_distribution: Install) -> None:
    site = fake_distribution(
        "midspan-x", plugins={"x": "fake_x"}, modules={"fake_x": "import json\n\njson.loads('{')\n"}
    )
    with pytest.raises(PluginError, match="cannot be imported: JSONDecodeError: ") as caught:
        load(info("x"))
    assert f"({site / 'fake_x.py'}:3)" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise SystemExit(0)", "cannot be imported: SystemExit: 0"),
        ("import sys; sys.exit('bye')", "cannot be imported: SystemExit: bye"),
        ("raise BaseException", "cannot be imported: BaseException"),
        ("def broken(:", "cannot be imported: SyntaxError: invalid syntax"),
        ("import not_there_at_all", "cannot be imported: ModuleNotFoundError: No module named 'not_there_at_all'"),
        (
            "from midspan_sdk import validator\n@validator(events='tools/call', phase='request')\ndef f(payload): ...",
            "cannot be imported: DefinitionError: interceptor 'f': events: must be a list",
        ),
        ("class E(Exception):\n  def __str__(self): raise RuntimeError\nraise E", "cannot be imported: E ("),
        ("raise ValueError('\\x1b[2Jgone')", "cannot be imported: ValueError: \ufffd[2Jgone"),
    ],
)
def test_whatever_a_module_raises_at_import_is_one_line(source: str, words: str, fake_distribution: Install) -> None:
    fake_distribution("midspan-x", plugins={"x": "fake_x"}, modules={"fake_x": source})
    with pytest.raises(PluginError) as caught:
        load(info("x"))
    assert caught.value.problem.startswith(words)
    assert str(caught.value).isprintable()


def test_ctrl_c_during_an_import_is_not_the_plugins_failure(fake_distribution: Install) -> None:
    fake_distribution("midspan-x", plugins={"x": "fake_x"}, modules={"fake_x": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        load(info("x"))


def test_an_entry_point_whose_module_lacks_the_object_is_one_line(fake_distribution: Install) -> None:
    fake_distribution("midspan-x", plugins={"x": "fake_x:nothing"}, modules={"fake_x": GOOD})
    with pytest.raises(PluginError, match="has no attribute 'nothing'"):
        load(info("x"))


def test_an_entry_point_may_name_an_instance_but_no_class(fake_distribution: Install) -> None:
    source = (
        "from midspan_sdk import hookimpl\n"
        "class Guard:\n  @hookimpl\n  def midspan_interceptors(self): return []\n"
        "guard = Guard()\n"
    )
    fake_distribution("midspan-x", plugins={"x": "fake_x:guard", "y": "fake_x:Guard"}, modules={"fake_x": source})
    assert load(info("x")).interceptors(None, "x") == []
    with pytest.raises(PluginError, match="its entry point names the class Guard; name a module or an instance"):
        load(info("y"))


def test_what_a_plugin_prints_does_not_reach_stdout(
    fake_distribution: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "print('at import')\n" + GOOD.replace("return [check]", "print('in a hook'); return [check]")
    fake_distribution("midspan-x", plugins={"x": "fake_x"}, modules={"fake_x": source})
    Builder(plugins=["x"]).assembly()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "at import\nin a hook\n"


def test_an_id_pinned_to_a_distribution_is_not_taken_over_by_another(
    fake_distribution: Install, tmp_path: Path
) -> None:
    fake_distribution("evil-pii", plugins={"pii": "evil_pii"}, modules={"evil_pii": GOOD})
    config = tmp_path / "midspan.toml"
    config.write_text("[plugins.pii]\nenabled = true\ndistribution = 'midspan-pii'\n")
    with pytest.raises(PluginError, match="the config pins it to midspan-pii, but it is brought by evil-pii"):
        Builder(config=config).assembly()
    assert "evil_pii" not in sys.modules
