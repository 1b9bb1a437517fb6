"""Each kind of finding: real plugins and configs, and what is told of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from midspan.checking import Checked, check
from midspan.plugins import Builder

HEADER = """
from midspan_sdk import Problem, hookimpl, mutator, sink, validator

"""
FOOTER = """

@hookimpl
def midspan_interceptors(): return [it]
"""

Find = Callable[..., list[str]]


@pytest.fixture
def checked(
    fake_distribution: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Checked]:
    """Install a plugin `guard` with this source, write this config, and check."""
    monkeypatch.chdir(tmp_path)

    def found(config: str = "", source: str | None = None, server: str | None = None, **options: object) -> Checked:
        if source is not None:
            text = HEADER + inspect.cleandoc(source) + ("" if "hookimpl" in source else FOOTER)
            fake_distribution("midspan-guard", plugins={"guard": "fake_guard"}, modules={"fake_guard": text})
            options.setdefault("plugins", ["guard"])
        Path("midspan.toml").write_text(inspect.cleandoc(config), "utf-8")
        gives = ("session", "store", "tools", "ask")
        return check(Builder(config=Path("midspan.toml"), gives=gives, **options), server)  # pyright: ignore[reportArgumentType] - a test's options

    return found


@pytest.fixture
def find(checked: Callable[..., Checked]) -> Find:
    """Check, and return the findings as lines."""

    def lines(*given: str, **options: object) -> list[str]:
        findings = checked(*given, **options).findings
        return [f"{one.where}: {one.severity}: {one.problem}".removeprefix(": ") for one in findings]

    return lines


# Hooks


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        (
            'events=["tool/call"], phase="request"',
            "hooks 'tool/call', which no method of MCP matches; did you mean 'tools/call'?; it never runs",
        ),
        (
            'events=["tool/call", "tools/list"], phase="request"',
            "hooks 'tool/call', which no method of MCP matches; did you mean 'tools/call'?",
        ),
        (
            'events=["tool/*"], phase="request"',
            "hooks 'tool/*', which no method of MCP matches; did you mean 'tools/*'?; it never runs",
        ),
        (
            'events=["notifications/progress"], phase="response"',
            "hooks 'notifications/progress' in the response phase, which is a notification: nobody answers it; hook "
            "the request phase; it never runs",
        ),
        (
            'events=["notifications/*"], phase="both"',
            "hooks 'notifications/*' in the response phase, which matches notifications only: nobody answers it; hook "
            "the request phase",
        ),
        (
            'events=["server/*"], phase="response"',
            "hooks 'server/*', which no message matches: server/discover must be named in full; it never runs",
        ),
        (
            'events=["notifications/cancelled"], phase="request"',
            "hooks 'notifications/cancelled', which keeps the connection working: no chain ever sees it; it never runs",
        ),
    ],
)
def test_a_hook_that_never_matches_is_told(find: Find, hook: str, problem: str) -> None:
    (line,) = find("", f"@validator({hook})\nasync def it(payload): ...")
    assert line == f"warning: plugin 'guard' (midspan-guard 1.0): it: {problem}"


@pytest.mark.parametrize("event", ["acme/run", "*", "tools/*", "initialize", "weather/*", "*/list"])
def test_a_hook_of_a_method_of_mcp_or_of_a_server_s_own_is_well(find: Find, event: str) -> None:
    assert find("", f"@validator(events=[{event!r}], phase='both')\nasync def it(payload): ...") == []


def test_a_hook_that_the_operator_narrows_to_nothing_is_told_at_its_place(find: Find) -> None:
    config = """
        [plugins.secrets]
        enabled = true
        [plugins.secrets.interceptors.redact]
        hooks = [{ events = ["tools/cal"], phase = "request" }]
    """
    assert find(config) == [
        "midspan.toml:4:1: warning: plugins.secrets.interceptors.redact.hooks: hooks 'tools/cal', which no method of "
        "MCP "
        "matches; did you mean 'tools/call'?; it never runs"
    ]


# Deadlines


def test_a_deadline_that_the_operator_sets_for_an_inline_handler_is_told_once_for_each_place(find: Find) -> None:
    config = """
        [plugins.secrets]
        enabled = true
        timeout = "2s"
        [plugins.secrets.interceptors.redact]
        timeout = "3s"
    """
    hint = "leave it out, or ask the author for an `async def` that awaits, or `blocking=True`"
    assert find(config) == [
        f"midspan.toml:3:1: warning: plugins.secrets.timeout: cannot be enforced for secrets.protected, which runs "
        f"inline, as a plain `def`; {hint}",
        f"midspan.toml:5:1: warning: plugins.secrets.interceptors.redact.timeout: cannot be enforced for "
        f"secrets.redact, "
        f"which runs inline, as a plain `def`; {hint}",
    ]


@pytest.mark.parametrize(
    ("timeout", "handler", "told"),
    [
        ("0.2", "def it(payload): ...", "as a plain `def`"),
        ("0.2", "async def it(payload): ...", "as an `async def` that awaits nothing"),
        ("0.2", "async def it(payload): await sleep(1)", None),
        ("5", "def it(payload): ...", None),  # lets a late result count
        ("0.2, blocking=True", "def it(payload): ...", None),
    ],
)
def test_a_deadline_below_the_default_that_an_author_declares_in_vain_is_told(
    find: Find, timeout: str, handler: str, told: str | None
) -> None:
    source = f"from asyncio import sleep\n@validator(events=['*'], phase='request', timeout={timeout})\n{handler}"
    lines = find("", source)
    if told is None:
        assert lines == []
    else:
        (line,) = lines
        assert f"the timeout of 'it', 200ms, cannot be enforced: the handler runs inline, {told}; its author" in line


# Scopes and doubles


def test_a_pattern_of_a_scope_that_matches_no_server_is_told_with_the_nearest(find: Find) -> None:
    config = """
        [servers.prod-mail]
        command = "sh"
        [plugins.secrets]
        enabled = true
        servers = ["prod-*", "prod-mial", "dev-*"]
        [plugins.off]
        use = "policy"
        enabled = false
        servers = ["nothing"]
        [interceptor_servers.central]
        url = "http://127.0.0.1/mcp"
        servers = ["lab-*"]
    """
    known = "matches no server of the config"
    assert find(config) == [
        f"midspan.toml:5:22: warning: plugins.secrets.servers[1]: 'prod-mial' {known}; did you mean 'prod-mail'?",
        f"midspan.toml:5:35: warning: plugins.secrets.servers[2]: 'dev-*' {known}; the servers are prod-mail",
        f"midspan.toml:12:12: warning: interceptor_servers.central.servers[0]: 'lab-*' {known}; the servers are "
        f"prod-mail",
    ]


def test_without_servers_a_scope_goes_by_names_that_are_not_known_yet(find: Find) -> None:
    assert find("[plugins.secrets]\nenabled = true\nservers = ['prod-*']") == []


@pytest.mark.parametrize(("scope", "told"), [('["a", "b"]', True), ('["b"]', False)])
def test_two_instances_that_do_the_same_for_a_server_are_told(find: Find, scope: str, told: bool) -> None:
    config = f"""
        [servers]
        a.command = "sh"
        b.command = "sh"
        [plugins.one]
        use = "secrets"
        enabled = true
        servers = ["a"]
        [plugins.two]
        use = "secrets"
        enabled = true
        servers = {scope}
    """
    line = (
        "midspan.toml:8:10: warning: plugins.two: does again what [plugins.one] does: the same plugin with the same "
        "config; remove one of the two, or give them scopes that do not overlap"
    )
    assert find(config) == ([line] if told else [])


def test_two_instances_with_another_config_are_well(find: Find) -> None:
    config = "[plugins.policy]\nenabled = true\nconfig = {deny = ['rm']}\n"
    config += "[plugins.more]\nuse = 'policy'\nenabled = true\nconfig = {deny = ['ls']}"
    assert find(config) == []


# Servers, tables, requirements, audit


def test_what_servers_need_and_is_not_there_is_told(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    config = """
        [servers.one]
        command = "no-such-program"
        [servers.two]
        url = "http://127.0.0.1/mcp"
        headers = { Authorization = "Bearer ${NO_SUCH_TOKEN}" }
        [servers.three]
        command = "sh"
        cwd = "/no/such/folder"
    """
    assert find(config) == [
        "midspan.toml:2:1: error: servers.one.command: cannot start 'no-such-program': not found; install it or give "
        "its "
        "full path",
        "midspan.toml:5:13: error: servers.two.headers.Authorization: needs the environment variable NO_SUCH_TOKEN, "
        "which "
        "is not set; set it, or write ${NO_SUCH_TOKEN:-default}",
        "midspan.toml:7:1: error: servers.three.command: cannot start 'sh': its working directory is not there: "
        "/no/such/folder",
    ]


def test_a_table_that_does_not_say_whether_it_is_enabled_is_told_once(find: Find) -> None:
    assert find("[plugins.policy]\n[plugins.policy.config]\ndeny = ['rm']") == [
        "midspan.toml:1:10: warning: plugins.policy: does not say whether it is enabled, so it is off; write `enabled "
        "= "
        "true` or `enabled = false`"
    ]
    assert find("[plugins.policy]\n", no_plugins=["policy"]) == []


def test_a_level_for_no_plugin_and_no_logger_is_told(find: Find) -> None:
    config = "[log.levels]\nsecrts = 'debug'\nsecrets = 'debug'\nasyncio = 'debug'\n'midspan.chain' = 'debug'"
    assert find(config) == [
        "midspan.toml:2:1: warning: log.levels.secrts: no plugin has this id, and no module this name; did you mean "
        "'secrets'?"
    ]


def test_a_requirement_that_is_not_met_is_told(find: Find) -> None:
    config = 'requires = ["midspan-secrets>=0.1", "midspan-secrets>=9", "midspan-nothing"]'
    assert find(config) == [
        "midspan.toml:1:37: error: requires[1]: midspan-secrets 0.1.0 is installed, which is not >=9; run: midspan "
        "plugins install 'midspan-secrets>=9'",
        "midspan.toml:1:59: error: requires[2]: midspan-nothing is not installed; run: midspan plugins install "
        "midspan-nothing",
    ]


def test_a_durable_observer_is_there_where_it_is_required(find: Find, tmp_path: Path) -> None:
    audit = f"[plugins.audit]\nenabled = true\nservers = ['a']\nconfig = {{ path = '{tmp_path / 'audit.jsonl'}' }}\n"
    servers = "[servers]\na.command = 'sh'\nb.command = 'sh'\n[audit]\nrequired = true\n"
    assert find(audit + servers) == [
        "midspan.toml:9:1: error: audit.required: no durable observer of decisions is enabled here; enable one, such "
        "as "
        "the plugin `audit`, or remove `required`"
    ]
    assert find(audit.replace("['a']", "['*']") + servers) == []
    assert not (tmp_path / "audit.jsonl").exists()


def test_what_a_plugin_finds_in_itself_is_told_at_its_table(find: Find) -> None:
    assert find("[plugins.policy]\nenabled = true\nconfig = { deny = ['rm', 'rm'] }") == [
        "midspan.toml:1:10: warning: plugin 'policy' (midspan-policy 0.1.0): deny[1] ('rm') never decides: deny[0] "
        "('rm') "
        "matches all of it before; remove one of the two"
    ]


def test_a_plugin_that_cannot_run_is_told_where_the_config_asks_for_it(
    find: Find, fake_distribution: Callable[..., Path]
) -> None:
    for name in ("guard", "other"):
        fake_distribution(f"midspan-{name}", plugins={"guard": f"fake_{name}"})
    fake_distribution("midspan-newer", plugins={"newer": "fake_newer"}, requires=["midspan-sdk>=9"])
    config = """
        [plugins.mine]
        enabled = true
        use = "nothing-near"
        [plugins.guard]
        enabled = true
        distribution = "midspan-thrid"
        [plugins.newer]
        enabled = true
    """
    assert find(config) == [
        "midspan.toml:3:1: error: plugins.mine.use: no installed plugin has this id; `midspan plugins install "
        "midspan-nothing-near` if there is such a package",
        "midspan.toml:6:1: error: plugins.guard.distribution: the config pins it to midspan-thrid, but it is brought "
        "by midspan-guard 1.0 and midspan-other 1.0",
        "midspan.toml:7:10: error: plugins.newer: midspan-newer 1.0: requires midspan-sdk>=9; midspan-sdk 0.1.0 is "
        "installed",
    ]


# All at once


def test_errors_name_the_servers_that_they_stop(checked: Callable[..., Checked]) -> None:
    config = """
        [servers]
        dev-a.command = "sh"
        prod-a.command = "sh"
        prod-b.command = "sh"
        [plugins.prod]
        use = "policy"
        enabled = true
        servers = ["prod-*"]
        config = { dney = ["x"], deny = [""] }
        [plugins.gone]
        enabled = true
        servers = ["dev-*"]
    """
    found = checked(config)
    assert [(one.where, one.servers) for one in found.findings] == [
        ("midspan.toml:9:12", ("prod-a", "prod-b")),
        ("midspan.toml:9:34", ("prod-a", "prod-b")),
        ("midspan.toml:10:10", ("dev-a",)),
    ]
    assert (found.plugins, found.servers) == (0, ())
    assert [one.servers for one in checked(config, server="dev-x").findings] == [("dev-x",)]


def test_a_check_of_a_broken_chain_still_tells_its_warnings(find: Find) -> None:
    config = "[plugins.gone]\nenabled = true\n[plugins.secrets]\nenabled = true\ntimeout = '2s'"
    assert [line.split(": ")[1] for line in find(config)] == ["error", "warning"]
