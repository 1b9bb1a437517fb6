from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from midspan.config import Config
from midspan.errors import ConfigError, PluginError, ProblemsError
from midspan.plugins import Assembly, Builder

Assemble = Callable[..., Assembly]

SOURCE = """
from __future__ import annotations
from pydantic import BaseModel
from midspan_sdk import Problem, hookimpl, mutator, sink, validator

class Inner(BaseModel, extra="forbid"):
    depth: int = 1

class Settings(BaseModel):
    words: list[str] = ["rm"]
    limit: int = 3
    inner: Inner = Inner()

@validator(events=["tools/call"], phase="request")
def check(payload, config: Settings):
    return next((word for word in config.words if word in str(payload)), None)

@mutator(events=["tools/*"], phase="both", priority_hint=3, timeout=0.5)
def restore(payload): ...

@validator(events=["tools/list"], phase="response", name="acme/listing")
def listing(payload): ...

@sink(events=["tools/call"], phase="request")
def tap(payload): ...

@hookimpl
def midspan_config():
    return Settings

@hookimpl
def midspan_interceptors(config, instance):
    return [check, restore, listing, tap]
"""


@pytest.fixture
def build(fake_distribution: Callable[..., Path], tmp_path: Path) -> Assemble:
    """Install a plugin `guard` with this source, write this config file, and assemble."""

    def assembled(
        source: str = SOURCE, config: str | None = None, server: str | None = None, **options: object
    ) -> Assembly:
        fake_distribution(
            "midspan-guard", version="2.1", plugins={"guard": "fake_guard"}, modules={"fake_guard": source}
        )
        if config is None:
            return Builder(config=Config(), **{"plugins": ["guard"], **options}).assembly(server)  # pyright: ignore[reportArgumentType] - a test's options
        path = tmp_path / "midspan.toml"
        path.write_text(inspect.cleandoc(config), encoding="utf-8")
        return Builder(config=path, **options).assembly(server)  # pyright: ignore[reportArgumentType] - a test's options

    return assembled


@pytest.fixture
def refused(build: Assemble) -> Callable[..., PluginError]:
    """Assemble as `build` does, and return the error."""

    def error(source: str = SOURCE, config: str | None = None, **options: object) -> PluginError:
        with pytest.raises(PluginError) as caught:
            build(source, config, **options)
        assert str(caught.value).startswith("plugin 'guard' ")
        assert "(midspan-guard 2.1): " in str(caught.value)
        assert "to start without it: --no-plugin guard" in str(caught.value)
        return caught.value

    return error


def test_nothing_enabled_is_an_empty_chain() -> None:
    assembly = Builder().assembly()
    assert assembly.empty
    assert assembly.chain.entries == assembly.instances == assembly.interceptors == assembly.warnings == ()


def test_wire_names_are_instance_and_function_unless_the_author_gave_one(build: Assemble) -> None:
    assembly = build()
    names = ["guard.check", "guard.restore", "acme/listing", "guard.tap"]
    assert [entry.name for entry in assembly.chain.entries] == names
    assert [one.name for one in assembly.interceptors] == names
    assert {one.state_group for one in assembly.interceptors} == {"guard"}
    assert not assembly.empty


def test_the_config_schema_of_each_interceptor_is_that_of_the_plugin(build: Assemble) -> None:
    for entry in build().chain.entries:
        assert entry.descriptor.config_schema is not None
        assert set(entry.descriptor.config_schema["properties"]) == {"words", "limit", "inner"}


def test_a_plugin_without_a_table_runs_with_the_defaults_of_its_model(build: Assemble) -> None:
    (instance,) = build().instances
    assert instance.bindings.config is instance.config
    assert instance.config is not None
    assert instance.config.model_dump() == {"words": ["rm"], "limit": 3, "inner": {"depth": 1}}


def test_two_instances_of_one_plugin_have_a_config_and_a_name_each(build: Assemble) -> None:
    source = SOURCE.replace(', name="acme/listing"', "")
    assembly = build(
        source,
        """
        [plugins.prod]
        enabled = true
        use = "guard"
        mode = "audit"
        [plugins.prod.config]
        words = ["dd"]
        [plugins.dev]
        enabled = true
        use = "guard"
        """,
    )
    assert [(entry.name, entry.mode) for entry in assembly.chain.entries if entry.type == "validation"] == [
        ("prod.check", "audit"),
        ("prod.listing", "audit"),
        ("dev.check", "active"),
        ("dev.listing", "active"),
    ]
    assert [one.bindings.config.words for one in assembly.interceptors if one.name.endswith(".check")] == [  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue, reportUnknownMemberType] - the fake plugin's model
        ["dd"],
        ["rm"],
    ]
    assert assembly.instances[0].plugin is assembly.instances[1].plugin


def test_two_instances_with_an_interceptor_of_a_given_name_collide_and_both_are_named(build: Assemble) -> None:
    with pytest.raises(PluginError) as caught:
        build(SOURCE, "[plugins.guard]\nenabled = true\n[plugins.dev]\nenabled = true\nuse = 'guard'\n")
    assert caught.value.instance == "dev"
    assert "its interceptor 'acme/listing' has the same name as one of 'guard'" in caught.value.problem


# The plugin's own config


@pytest.mark.parametrize(
    ("table", "place", "words"),
    [
        ("limit = 'many'", ":3:8: plugins.guard.config.limit: ", "must be a whole number"),
        ("word = ['rm']", ":3:8: plugins.guard.config.word: ", "unknown key; did you mean 'words'?"),
        ("words = ['a', 3]", ":3:22: plugins.guard.config.words[1]: ", "must be a text, in quotes"),
        ("inner = { dpth = 2 }", ":3:18: plugins.guard.config.inner.dpth: ", "unknown key; did you mean 'depth'?"),
        ("inner = 3", ":3:8: plugins.guard.config.inner: ", "must be a table"),
    ],
)
def test_a_wrong_config_names_file_table_key_and_what_is_accepted(
    table: str, place: str, words: str, refused: Callable[..., PluginError], tmp_path: Path
) -> None:
    keys = "\n".join(f"config.{line}" for line in table.splitlines())
    error = refused(SOURCE, f"[plugins.guard]\nenabled = true\n{keys}")
    assert error.problem.startswith(f"{tmp_path / 'midspan.toml'}{place}{words}")


def test_a_missing_value_says_what_is_accepted_and_that_there_is_no_file(refused: Callable[..., PluginError]) -> None:
    error = refused(SOURCE.replace('words: list[str] = ["rm"]', "words: list[str]"))
    assert error.problem.startswith(
        "plugins.guard.config.words: is missing; accepted: list of texts; there is no config file"
    )


def test_a_validator_of_the_model_may_raise_anything(refused: Callable[..., PluginError]) -> None:
    source = SOURCE.replace(
        "    limit: int = 3",
        "    limit: int = 3\n    def model_post_init(self, context): raise KeyError('limit')",
    )
    assert "its model raised KeyError: 'limit'" in refused(source).problem


def test_a_config_table_for_a_plugin_without_a_model_is_refused(refused: Callable[..., PluginError]) -> None:
    source = SOURCE.replace("return Settings", "return None").replace(", config: Settings", "")
    config = "[plugins.guard]\nenabled = true\n[plugins.guard.config]\nwords = []"
    assert "plugins.guard.config: the plugin takes no config; remove the table" in refused(source, config).problem


@pytest.mark.parametrize(("returned", "words"), [("Inner", "returns Inner"), ("None", "names no model")])
def test_a_handler_written_for_another_model_is_refused(
    returned: str, words: str, refused: Callable[..., PluginError]
) -> None:
    problem = refused(SOURCE.replace("return Settings", f"return {returned}")).problem
    assert problem.startswith(f"the handler of 'check' takes config: Settings, but midspan_config {words}")


# The operator's policy


def test_the_policy_of_a_table_applies_to_each_interceptor_whose_kind_takes_it(build: Assemble) -> None:
    assembly = build(
        SOURCE,
        """
        [plugins.guard]
        enabled = true
        mode = "audit"
        fail_open = true
        priority = { response = 9 }
        timeout = "250ms"
        """,
    )
    by_name = {entry.name: entry for entry in assembly.chain.entries}
    for name in ("guard.check", "guard.restore", "acme/listing"):
        assert (by_name[name].mode, by_name[name].fail_open) == ("audit", True)
    assert [by_name["guard.restore"].priority(phase) for phase in ("request", "response")] == [0, 9]
    assert {entry.timeout for entry in by_name.values()} == {0.25}


def test_the_table_of_an_interceptor_wins_key_by_key(build: Assemble) -> None:
    assembly = build(
        SOURCE,
        """
        [plugins.guard]
        enabled = true
        mode = "audit"
        timeout = "250ms"
        [plugins.guard.interceptors.restore]
        mode = "active"
        priority = 100
        hooks = [{ events = ["tools/call"], phase = "both" }]
        [plugins.guard.interceptors."acme/listing"]
        timeout = "2s"
        [plugins.guard.interceptors.tap]
        timeout = "3s"
        """,
    )
    by_name = {entry.name: entry for entry in assembly.chain.entries}
    restore = by_name["guard.restore"]
    assert (restore.mode, restore.priority("request"), restore.timeout) == ("active", 100, 0.25)
    assert restore.matches("tools/call", "response")
    assert not restore.matches("tools/list", "response")
    assert (by_name["acme/listing"].mode, by_name["acme/listing"].timeout) == ("audit", 2.0)
    assert by_name["guard.tap"].timeout == 3.0
    assert by_name["guard.check"].mode == "audit"


def test_without_a_policy_everything_stays_as_the_author_declared_it(build: Assemble) -> None:
    by_name = {entry.name: entry for entry in build().chain.entries}
    restore = by_name["guard.restore"]
    assert (restore.mode, restore.fail_open, restore.priority("response"), restore.timeout) == ("active", False, 3, 0.5)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            "[plugins.guard.interceptors.restor]\nmode = 'audit'",
            "plugins.guard.interceptors.restor: the plugin has no such interceptor; did you mean 'restore'?",
        ),
        (
            "[plugins.guard.interceptors.check]\npriority = 3",
            "plugins.guard.interceptors.check.priority: a validator does not take it, only mutators do",
        ),
        (
            "[plugins.guard.interceptors.tap]\nmode = 'audit'",
            "plugins.guard.interceptors.tap.mode: a sink does not take it, only validators and mutators do",
        ),
        (
            "[plugins.guard.interceptors.check]\nhooks = [{ events = ['prompts/*'], phase = 'request' }]",
            "plugins.guard.interceptors.check.hooks: may only narrow; 'prompts/*' in the request phase is outside",
        ),
    ],
)
def test_an_override_that_cannot_apply_is_refused(
    config: str, problem: str, refused: Callable[..., PluginError]
) -> None:
    assert problem in refused(SOURCE, f"[plugins.guard]\nenabled = true\n{config}").problem


def test_a_policy_that_applies_to_nothing_is_refused(refused: Callable[..., PluginError]) -> None:
    source = SOURCE.replace("return [check, restore, listing, tap]", "return [tap]")
    error = refused(source, "[plugins.guard]\nenabled = true\nmode = 'audit'\n")
    assert (
        ":3:1: plugins.guard.mode: no interceptor of this plugin takes it, only validators and mutators do"
        in error.problem
    )


# What else a plugin may contribute


def test_two_interceptors_of_one_name_in_a_plugin_are_refused(refused: Callable[..., PluginError]) -> None:
    source = SOURCE.replace("[check, restore, listing, tap]", "[check, check]")
    assert refused(source).problem.startswith("two of its interceptors are called 'check'; rename one")


@pytest.mark.parametrize(
    ("parameter", "words"),
    [("tools", "needs the catalogue of tools, which this mount does not keep"), ("session_state", "needs sessions")],
)
def test_a_need_that_the_mount_cannot_meet_stops_the_start(
    parameter: str, words: str, refused: Callable[..., PluginError]
) -> None:
    error = refused(SOURCE.replace("def restore(payload)", f"def restore(payload, {parameter})"))
    assert error.problem.startswith("interceptor 'guard.restore': needs: ")
    assert words in error.problem
    assert error.instance == "guard"


def test_a_need_that_the_mount_gives_is_met(build: Assemble) -> None:
    source = SOURCE.replace("def restore(payload)", "def restore(payload, session_state)")
    assert len(build(source, gives=["session"]).chain.entries) == 4


def test_resolvers_are_refused_until_they_are_supported(refused: Callable[..., PluginError]) -> None:
    source = SOURCE + "\n@hookimpl\ndef midspan_resolvers(): return []\n"
    assert refused(source).problem.startswith("midspan_resolvers is not supported yet")


CHECKS = (
    SOURCE
    + """
@hookimpl
def midspan_checks(config, instance, entries):
    problems = [
        Problem(message="cannot block in audit mode", interceptor=entry.name)
        for entry in entries if entry.mode == "audit" and config.limit > 3
    ]
    return [*problems, Problem(message=f"{instance} is lax", severity="warning")]
"""
)


def test_a_check_sees_the_resolved_policy_and_an_error_of_it_stops_the_start(
    refused: Callable[..., PluginError],
) -> None:
    config = "[plugins.guard]\nenabled = true\ninterceptors.check.mode = 'audit'\nconfig.limit = 5\n"
    assert refused(CHECKS, config).problem.startswith("guard.check: cannot block in audit mode")


def test_a_warning_of_a_check_does_not_stop_the_start(build: Assemble) -> None:
    assembly = build(CHECKS)
    assert assembly.warnings == ("plugin 'guard' (midspan-guard 2.1): guard is lax",)


OBSERVERS = """
from midspan_sdk import hookimpl

class Log:
    durable = True
    def __init__(self, name): self.name = name
    async def observe(self, record): ...

@hookimpl
def midspan_observers(instance):
    return [Log("log"), Log(instance), Log(f"{instance}.more")]
"""


def test_observers_are_named_after_their_instance(build: Assemble) -> None:
    assembly = build(OBSERVERS)
    assert [one.name for one in assembly.instances[0].observers] == ["guard.log", "guard", "guard.more"]
    assert all(one.durable for one in assembly.instances[0].observers)
    assert not assembly.empty
    assert assembly.chain.entries == ()
    assert assembly.chain.concerns("tools/call", "request")


def test_two_observers_of_one_name_are_refused(refused: Callable[..., PluginError]) -> None:
    source = OBSERVERS.replace('Log(f"{instance}.more")', 'Log("log")')
    assert refused(source).problem.startswith("two of its observers are called 'guard.log'; rename one")


def test_a_file_in_the_users_config_folder_is_used_when_none_is_named(
    fake_distribution: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_distribution("midspan-guard", plugins={"guard": "fake_guard"}, modules={"fake_guard": SOURCE})
    (tmp_path / "midspan").mkdir()
    (tmp_path / "midspan" / "midspan.toml").write_text("[plugins.guard]\nenabled = true\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert len(Builder().assembly().chain.entries) == 4


def test_a_config_that_is_wrong_stops_the_start_before_anything_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "midspan.toml"
    path.write_text("[plugins.policy]\nenabled = true\ntimeout = 3\n")
    with pytest.raises(ConfigError, match=r"midspan\.toml:3:1: plugins\.policy\.timeout: must be a duration"):
        Builder(config=path).assembly()


def test_a_distribution_that_the_config_requires_and_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "midspan.toml"
    path.write_text('requires = ["midspan-sdk>=0.1", "midspan-nothing>=0.2", "midspan-policy>=9"]\n')
    with pytest.raises(ProblemsError) as caught:
        Builder(config=path).assembly()
    assert [str(problem) for problem in caught.value.problems] == [
        f"{path}:1:33: requires[1]: midspan-nothing is not installed; "
        "run: midspan plugins install 'midspan-nothing>=0.2'",
        f"{path}:1:57: requires[2]: midspan-policy 0.1.0 is installed, which is not >=9; "
        "run: midspan plugins install 'midspan-policy>=9'",
    ]


# Limits


SLOW = """
from __future__ import annotations
import anyio
from midspan_sdk import hookimpl, mutator

@mutator(events=["slow"], phase="request", timeout=60)
async def slow(payload):
    await anyio.sleep_forever()

@mutator(events=["large"], phase="request")
def large(payload):
    return {"text": "x" * 4000}

class Keeps:
    name = "keeps"
    durable = True
    async def observe(self, record):
        if record.event == "kept":
            await anyio.sleep_forever()

@hookimpl
def midspan_interceptors():
    return [slow, large]

@hookimpl
def midspan_observers():
    return [Keeps()]
"""


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("slow", "the chain did not finish within 50 ms"),
        ("large", "the result is too large"),
        ("kept", "the decision record could not be written"),
    ],
)
async def test_the_limits_of_the_config_are_those_of_the_chain(build: Assemble, event: str, reason: str) -> None:
    config = """
        [plugins.guard]
        enabled = true
        [limits]
        chain_timeout = "50ms"
        max_payload = "2KiB"
        [audit]
        required = true
        timeout = "20ms"
    """
    chain = build(SLOW, config).chain
    with anyio.fail_after(5):
        result = await chain.execute(event=event, phase="request", payload={})
    assert result.aborted_at is not None
    assert result.aborted_at.reason == reason


def test_a_durable_observer_that_is_required_and_not_there_refuses_the_chain(build: Assemble) -> None:
    config = "[plugins.guard]\nenabled = true\n[audit]\nrequired = true"
    with pytest.raises(ConfigError, match=r"audit\.required: no durable observer of decisions is enabled here"):
        build(SOURCE, config, server="files")
