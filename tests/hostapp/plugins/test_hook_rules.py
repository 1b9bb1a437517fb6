"""What a hook may look like: each rule with the sentence that its breach gets."""

from __future__ import annotations

from types import ModuleType

import pytest

from midspan.errors import PluginError
from midspan.plugins import Plugin, PluginInfo
from midspan_sdk import hookimpl, validator

INFO = PluginInfo(id="x", distribution="midspan-x", version="1.0", value="midspan_x")

HEAD = """
from __future__ import annotations
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from midspan_sdk import hookimpl, validator

@validator(events=["tools/call"], phase="request")
def check(payload): ...
"""


def module(source: str) -> ModuleType:
    made = ModuleType("midspan_x")
    exec(compile(HEAD + source, "midspan_x.py", "exec", dont_inherit=True), made.__dict__)
    return made


def refusal(loaded: object) -> str:
    with pytest.raises(PluginError) as caught:
        Plugin(INFO, loaded)
    error = caught.value
    assert (error.plugin, error.distribution, error.version) == ("x", "midspan-x", "1.0")
    assert str(error).startswith("plugin 'x' (midspan-x 1.0): ")
    return error.problem


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "@hookimpl\nasync def midspan_interceptors(): return [check]",
            "midspan_interceptors must be a plain function; put async work in the interceptor it returns",
        ),
        (
            "@hookimpl\nasync def midspan_interceptors(): yield check",
            "midspan_interceptors must be a plain function; put async work in the interceptor it returns",
        ),
        (
            "@hookimpl\nasync def midspan_lifespan(): yield 1",
            "midspan_lifespan must be a plain function; decorate it with contextlib.asynccontextmanager",
        ),
        (
            "@hookimpl\nasync def midspan_observers(): return []",
            "midspan_observers must be a plain function; put async work in the observer it returns",
        ),
        (
            "@hookimpl\ndef midspan_interceptors(): yield check",
            "midspan_interceptors must be a plain function, not a generator; return a list instead of yielding",
        ),
        (
            "@hookimpl\ndef midspan_interceptor(): return [check]",
            "unknown hook midspan_interceptor; did you mean 'midspan_interceptors'?",
        ),
        ("@hookimpl\ndef setup(): ...", "unknown hook setup; the hooks are midspan_checks, "),
        ("@hookimpl(specname='midspan_start')\ndef begin(): ...", "unknown hook midspan_start"),
        (
            "def midspan_interceptors(): return [check]",
            "midspan_interceptors is not marked as a hook; decorate it with @hookimpl",
        ),
        ("def midspan_helper(): ...", "unknown hook midspan_helper"),
        (
            "midspan_interceptors = [check]",
            "midspan_interceptors must be a plain function decorated with @hookimpl, not list; put @hookimpl outermost",
        ),
        (
            "@lru_cache\n@hookimpl\ndef midspan_interceptors(): return [check]",
            "midspan_interceptors must be a plain function decorated with @hookimpl, not _lru_cache_wrapper",
        ),
        (
            "@hookimpl\ndef midspan_interceptors(cfg): return [check]",
            "midspan_interceptors takes no argument 'cfg'; it may take config, instance",
        ),
        ("@hookimpl\ndef midspan_config(config): ...", "midspan_config takes no argument 'config'; it may take none"),
        (
            "@hookimpl\ndef midspan_interceptors(config=None): return [check]",
            "midspan_interceptors: the argument 'config' must have no default; with one it would never be given",
        ),
        (
            "@hookimpl\ndef midspan_interceptors(*, config): return [check]",
            "midspan_interceptors: the argument 'config' must not be keyword-only; remove the `*` before it",
        ),
        (
            "@hookimpl\ndef midspan_interceptors(**given): return [check]",
            "midspan_interceptors takes *given; name the arguments it needs, config, instance",
        ),
        (
            "@hookimpl(wrapper=True)\ndef midspan_interceptors(): return (yield)",
            "midspan_interceptors: a plugin cannot wrap what other plugins contribute; make it a plain function",
        ),
        (
            "@hookimpl(hookwrapper=True)\ndef midspan_interceptors(): yield",
            "midspan_interceptors: a plugin cannot wrap what other plugins contribute; make it a plain function",
        ),
        (
            "@hookimpl(tryfirst=True)\ndef midspan_interceptors(): return [check]",
            "midspan_interceptors: has the option tryfirst, which means nothing here; order interceptors by their",
        ),
        (
            "@hookimpl(trylast=True)\ndef midspan_interceptors(): return [check]",
            "midspan_interceptors: has the option trylast, which means nothing here",
        ),
        (
            "@hookimpl\ndef midspan_interceptors(): return [check]\n"
            "@hookimpl(specname='midspan_interceptors')\ndef more(): return [check]",
            "midspan_interceptors is implemented twice; keep one",
        ),
        ("", "implements no hook; mark one, such as midspan_interceptors, with @hookimpl"),
    ],
)
def test_a_hook_that_pluggy_would_misuse_is_refused_with_a_sentence(source: str, sentence: str) -> None:
    assert refusal(module(source)).startswith(sentence)


def test_none_is_no_plugin() -> None:
    assert refusal(None).startswith("implements no hook")


def test_an_unknown_hook_that_is_marked_optional_is_for_another_version() -> None:
    source = (
        "@hookimpl(optionalhook=True)\ndef midspan_future(): ...\n@hookimpl\ndef midspan_interceptors(): return [check]"
    )
    plugin = Plugin(INFO, module(source))
    assert [one.name for one in plugin.interceptors(None, "x")] == ["check"]


def test_what_is_no_hook_may_have_the_prefix() -> None:
    source = (
        "import midspan_sdk\nmidspan_version = '1'\n"
        "midspan_check = validator(events=['tools/call'], phase='request')(lambda payload: None)\n"
        "@hookimpl\ndef midspan_interceptors(): return [midspan_check]"
    )
    assert len(Plugin(INFO, module(source)).interceptors(None, "x")) == 1


def test_an_instance_can_be_a_plugin() -> None:
    class Guard:
        def __init__(self, words: list[str]) -> None:
            self.words = words

        @validator(events=["tools/call"], phase="request")
        def check(self, payload: dict[str, object]) -> bool:
            return not any(word in str(payload) for word in self.words)

        @hookimpl
        def midspan_interceptors(self, instance: str) -> list[object]:
            return [self]

    (check,) = Plugin(INFO, Guard(["rm"])).interceptors(None, "x")
    assert check({"command": "ls"}) is True
    assert check({"command": "rm"}) is False


def test_hooks_take_the_arguments_they_name_and_no_more() -> None:
    source = "@hookimpl\ndef midspan_interceptors(instance): given.append(instance); return []\ngiven = []"
    loaded = module(source)
    Plugin(INFO, loaded).interceptors(None, "prod")
    assert loaded.given == ["prod"]


def test_a_property_of_a_plugin_object_is_not_evaluated() -> None:
    class Guard:
        @property
        def trap(self) -> None:
            raise AssertionError("evaluated")

        @hookimpl
        def midspan_interceptors(self) -> list[object]:
            return []

    Plugin(INFO, Guard())
