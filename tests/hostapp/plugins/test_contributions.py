"""What a hook may return: each wrong return with the sentence that it gets."""

from __future__ import annotations

from types import ModuleType

import pytest

from midspan.errors import PluginError
from midspan.plugins import Plugin, PluginInfo

INFO = PluginInfo(id="x", distribution="midspan-x", version="1.0", value="midspan_x")

HEAD = """
from contextlib import asynccontextmanager
from pydantic import BaseModel
from midspan_sdk import Command, Problem, hookimpl, mutator, validator

class Settings(BaseModel):
    word: str = "rm"

@validator(events=["tools/call"], phase="request")
def check(payload): ...

class Guard:
    @validator(events=["tools/call"], phase="request")
    def first(self, payload): ...
    @mutator(events=["tools/call"], phase="request")
    def second(self, payload): ...

class Log:
    name = "log"
    durable = False
    async def observe(self, record): ...
"""


def plugin(hook: str, returned: str, before: str = "") -> Plugin:
    made = ModuleType("midspan_x")
    source = f"{HEAD}\n{before}\n@hookimpl\ndef {hook}():\n    return {returned}\n"
    exec(compile(source, "midspan_x.py", "exec", dont_inherit=True), made.__dict__)
    return Plugin(INFO, made)


def test_functions_and_objects_with_decorated_methods_are_contributions() -> None:
    found = plugin("midspan_interceptors", "[check, Guard()]").interceptors(None, "x")
    assert [one.name for one in found] == ["check", "first", "second"]
    assert plugin("midspan_interceptors", "()").interceptors(None, "x") == []


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ("None", "midspan_interceptors returned None; return a list of interceptors"),
        ("check", "midspan_interceptors returned the interceptor 'check' itself; return a list of interceptors"),
        ("Guard()", "midspan_interceptors returned an object of type Guard; return a list of interceptors"),
        ("{check}", "midspan_interceptors returned an object of type set; return a list of interceptors"),
        ("(one for one in [check])", "midspan_interceptors returned an object of type generator; return a list of"),
        ("'check'", "midspan_interceptors returned an object of type str; return a list of interceptors"),
        (
            "[lambda payload: None]",
            "midspan_interceptors returned a list with the function '<lambda>' in it; decorate it with @validator,",
        ),
        ("[Guard]", "midspan_interceptors returned a list with the class Guard in it; put an instance of it there"),
        ("[None]", "midspan_interceptors returned a list with None in it; list interceptors, or objects with"),
        ("[[check]]", "midspan_interceptors returned a list with an object of type list in it; list interceptors"),
        ("[Log()]", "midspan_interceptors: interceptor 'Log': is no interceptor and has no decorated methods"),
        ("[Guard.first]", "midspan_interceptors: interceptor 'first': is a method; contribute an instance"),
        ("1 / 0", "midspan_interceptors raised ZeroDivisionError: division by zero (midspan_x.py:"),
        ("exit(3)", "midspan_interceptors raised SystemExit: 3"),
    ],
)
def test_interceptors_that_are_none_are_refused(returned: str, sentence: str) -> None:
    with pytest.raises(PluginError) as caught:
        plugin("midspan_interceptors", returned).interceptors(None, "prod")
    error = caught.value
    assert error.problem.startswith(sentence)
    assert (error.plugin, error.instance, error.distribution, error.version) == ("x", "prod", "midspan-x", "1.0")
    assert str(error).startswith("plugin 'x' as 'prod' (midspan-x 1.0): ")


def test_a_plain_hook_that_returns_a_coroutine_is_told_where_async_work_goes() -> None:
    with pytest.raises(PluginError, match="must be a plain function; put async work in the interceptor it returns"):
        plugin("midspan_interceptors", "later()", "async def later(): ...").interceptors(None, "x")


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ("Settings()", "midspan_config returned an object of type Settings; return the class itself"),
        ("dict", "midspan_config returned the class dict; return a pydantic model class, or None"),
        ("[Settings]", "midspan_config returned an object of type list; return a pydantic model class, or None"),
    ],
)
def test_a_config_model_that_is_none_is_refused(returned: str, sentence: str) -> None:
    with pytest.raises(PluginError) as caught:
        plugin("midspan_config", returned).config_model()
    assert caught.value.problem == sentence


def test_no_config_model_is_none() -> None:
    assert plugin("midspan_config", "None").config_model() is None
    assert plugin("midspan_interceptors", "[]").config_model() is None


@pytest.mark.parametrize(
    ("returned", "before", "sentence"),
    [
        ("Log()", "", "midspan_observers returned an object of type Log; return a list of observers"),
        ("[Log]", "", "midspan_observers returned a list with the class Log in it; put an instance of it there"),
        ("[check]", "", "midspan_observers returned a list with the interceptor 'check' itself in it; an observer has"),
        (
            "[Log()]",
            "del Log.durable",
            "midspan_observers returned a list with an object of type Log in it; an observer",
        ),
        (
            "[Log()]",
            "Log.name = ''",
            "midspan_observers returned a list with an object of type Log in it, whose name is",
        ),
        ("[Log()]", "Log.observe = lambda self, record: None", "midspan_observers returned a list with an object of"),
    ],
)
def test_observers_that_are_none_are_refused(returned: str, before: str, sentence: str) -> None:
    with pytest.raises(PluginError) as caught:
        plugin("midspan_observers", returned, before).observers(None, "x")
    assert caught.value.problem.startswith(sentence)


@pytest.mark.parametrize("returned", ["None", "object()", "Guard"])
def test_a_lifespan_that_is_no_async_context_manager_is_refused(returned: str) -> None:
    with pytest.raises(PluginError, match=r"midspan_lifespan returned .*; return an async context manager$"):
        plugin("midspan_lifespan", returned).lifespan(None, "x")


def test_problems_and_commands_are_lists_of_their_own_types() -> None:
    with pytest.raises(PluginError, match=r"midspan_checks returned None; return a list of problems$"):
        plugin("midspan_checks", "None").problems(None, "x", ())
    with pytest.raises(PluginError, match=r"with an object of type str in it; list midspan_sdk\.Problem only$"):
        plugin("midspan_checks", "['bad']").problems(None, "x", ())
    with pytest.raises(PluginError, match=r"list midspan_sdk\.Command only$"):
        plugin("midspan_commands", "[print]").commands()
    assert plugin("midspan_checks", "[Problem(message='m')]").problems(None, "x", ())[0].severity == "error"


def test_a_hook_that_is_not_implemented_contributes_nothing() -> None:
    without = plugin("midspan_config", "None")
    assert without.interceptors(None, "x") == without.observers(None, "x") == without.commands() == []
    assert without.problems(None, "x", ()) == []
    assert without.lifespan(None, "x") is None
    assert not without.has_resolvers
