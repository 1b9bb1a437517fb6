"""Fixtures that several parts of the tests use."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import hypothesis
import pytest

# A loaded machine is no counterexample; what must be fast has a benchmark.
hypothesis.settings.register_profile("midspan", deadline=None)
hypothesis.settings.load_profile("midspan")

FakeDistribution = Callable[..., Path]


@pytest.fixture(scope="session", autouse=True)
def signals_count() -> None:
    """Let what is started hear of signals, also when the tests themselves run under `nohup` or behind a shell's `&`.

    Whoever is started inherits that a signal is ignored, but not a handler: the tests go on being deaf to it.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)


@pytest.fixture(autouse=True)
def no_config_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the config of whoever runs the tests out of them."""
    monkeypatch.delenv("MIDSPAN_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config-home")))


@pytest.fixture(autouse=True)
def no_plugin_file_of_another_test() -> Iterator[None]:
    """Take the modules of `--plugin-file` out again: whichever test loaded one, in whatever order the tests run."""
    yield
    for name in [name for name in sys.modules if name.startswith("midspan_plugin_file_")]:
        del sys.modules[name]


@pytest.fixture
def fake_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDistribution]:
    """Install distributions into a folder on sys.path: a real `*.dist-info` folder and real modules.

    Call it with the distribution's name and, by keyword, `version`, `plugins` (entry points of the group
    `midspan.plugins`: id to value), `modules` (name to source), `requires` (`Requires-Dist` lines), and `folder`
    (where to install, when not the common one). It returns the folder.
    """
    before = set(sys.modules)
    folders: list[Path] = []

    def install(
        name: str,
        *,
        version: str = "1.0",
        plugins: Mapping[str, str] | Sequence[tuple[str, str]] = {},
        modules: Mapping[str, str] = {},
        requires: Sequence[str] = ("midspan-sdk<0.2,>=0.1",),
        folder: str = "site",
    ) -> Path:
        site = tmp_path / folder
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
        (info / "METADATA").write_text("\n".join(metadata) + "\n", encoding="utf-8")
        pairs = plugins.items() if isinstance(plugins, Mapping) else plugins
        lines = ["[midspan.plugins]", *(f"{plugin} = {value}" for plugin, value in pairs)]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for module, source in modules.items():
            (site / f"{module}.py").write_text(source, encoding="utf-8")
        if site not in folders:
            folders.append(site)
            monkeypatch.syspath_prepend(str(site))  # pyright: ignore[reportUnknownMemberType] - untyped in pytest
        importlib.invalidate_caches()
        return site

    yield install
    for module in set(sys.modules) - before:
        file = getattr(sys.modules[module], "__file__", None)
        if file and any(Path(file).is_relative_to(folder) for folder in folders):
            del sys.modules[module]
