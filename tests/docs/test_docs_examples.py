"""What the pages show in a terminal is what comes out."""

import asyncio
import os
import re
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from docs_pages import DOCS, EXAMPLE_PACKAGE, ROOT, Shown, blocks_of, commands_of, example_files
from mcp import Client

from midspan.http import listen, run_server

FIRST_PLUGIN = DOCS / "tutorial" / "first-plugin"
HOW_TO = DOCS / "how-to"
INSTALLS = "uv pip install -e midspan-acme-shell"


def shown_in(page: Path) -> list[Shown]:
    return [
        shown
        for block in blocks_of(page, "console")
        for shown in commands_of(block)
        if shown.output or block.text.startswith("$")
    ]


def run(command: str, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 2), f"{command}: {done.stderr}"
    # A terminal shows both; what midspan says before it answers comes first.
    return done.stderr + done.stdout if done.returncode == 2 else done.stdout


def normal(output: str) -> list[str]:
    text = re.sub(r"Decision [0-9a-f]{16}", "Decision ...", output)
    text = re.sub(r"\d+\.\d\dms", "...ms", text)
    text = re.sub(r"'durationMs': [0-9.]+", "'durationMs': ...", text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def check(shown: Shown, folder: Path, **variables: str) -> None:
    output = run(shown.command, folder, **variables)
    if not shown.output:
        return
    if "plugins list" in shown.command:  # beside other plugins
        assert set(normal(shown.output)) <= set(normal(output))
    else:
        assert normal(output) == normal(shown.output)


@pytest.mark.parametrize("shown", shown_in(HOW_TO / "run-a-chain.md"), ids=lambda shown: shown.command)
def test_a_chain_prints_what_its_page_shows(shown: Shown) -> None:
    check(shown, HOW_TO)


@pytest.mark.parametrize("shown", shown_in(HOW_TO / "serve-interceptors.md"), ids=lambda shown: shown.command)
def test_an_interceptor_server_answers_what_its_page_shows(shown: Shown) -> None:
    check(shown, HOW_TO / "serve-interceptors")


@pytest.mark.parametrize("shown", shown_in(HOW_TO / "guard-a-server.md"), ids=lambda shown: shown.command[:40])
def test_a_failed_start_says_what_its_page_shows(shown: Shown, tmp_path: Path) -> None:
    check(shown, tmp_path)


@pytest.mark.parametrize("shown", shown_in(HOW_TO / "see-before-it-runs.md"), ids=lambda shown: shown.command[:40])
def test_what_is_seen_before_it_runs_is_what_its_page_shows(shown: Shown) -> None:
    check(shown, HOW_TO / "see-before-it-runs")


def test_the_config_of_that_page_is_the_one_that_its_commands_read() -> None:
    (block,) = blocks_of(HOW_TO / "see-before-it-runs.md", "toml")
    assert block.text == (HOW_TO / "see-before-it-runs" / "guards.toml").read_text("utf-8")


def test_the_tests_of_the_plugin_that_asks_pass() -> None:
    run(f"{sys.executable} -m pytest -q -p no:cacheprovider test_careful.py | grep '3 passed'", HOW_TO / "ask-a-person")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the tutorial's wheel and unpack it, which is how a wheel of pure Python is installed."""
    folder = tmp_path_factory.mktemp("tutorial")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=EXAMPLE_PACKAGE,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_tutorial_goes_as_its_page_shows(site: Path) -> None:
    all_shown = shown_in(DOCS / "tutorial" / "first-plugin.md")
    assert INSTALLS in [shown.command for shown in all_shown]
    installed: Mapping[str, str] = {}
    for shown in all_shown:
        if shown.command == INSTALLS:
            installed = {"PYTHONPATH": str(site)}
        else:
            check(shown, FIRST_PLUGIN, **installed, PYTEST_ADDOPTS="-p no:cacheprovider -p no:randomly")


def test_the_readme_of_the_tutorials_package_says_what_is_true(site: Path, tmp_path: Path) -> None:
    (config,) = blocks_of(EXAMPLE_PACKAGE / "README.md", "toml")
    file = tmp_path / "midspan.toml"
    file.write_text(config.text, "utf-8")
    output = run(f"midspan plugins show acme-shell --config {file}", tmp_path, PYTHONPATH=str(site))
    assert "enabled" in output
    assert "forbidden_command" in output


@pytest.mark.anyio
async def test_the_embedded_gateway_guards_the_server_in_its_application(anyio_backend: str) -> None:
    (app_file,) = (HOW_TO / "guard-a-server").glob("*.py")
    app = runpy.run_path(str(app_file))["app"]
    listener = listen("127.0.0.1", 0)
    listener.listen()
    stop = asyncio.Event()
    async with app.router.lifespan_context(app):
        running = asyncio.create_task(run_server(app, listener, stop=stop))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/guarded/mcp"
        async with Client(url) as client:
            assert not (await client.call_tool("read", {"path": "notes"})).is_error
            assert (await client.call_tool("read", {"path": "secret"})).is_error
        stop.set()
        await running


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"


def test_every_example_is_run_by_a_test() -> None:
    shown = " ".join(
        each.command
        for page in ("tutorial/first-plugin.md", "how-to/run-a-chain.md", "how-to/serve-interceptors.md")
        for each in shown_in(DOCS / page)
    )
    shown += "guarded_app.py careful.py test_careful.py"  # run by tests above
    for file in example_files():
        if not file.is_relative_to(EXAMPLE_PACKAGE):  # which is installed, and whose tests are run
            assert file.name in shown, file.relative_to(ROOT)
