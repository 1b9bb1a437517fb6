"""A guard that is installed, locked, and tampered with."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from midspan.cli._group import invoke

PACKAGE = "locked_acme"
GUARD = """
from midspan_sdk import hookimpl, mutator, sink, validator
from locked_acme._words import WORD

@validator(events=["tools/call"], phase="request")
def check(payload):
    return f"not {WORD}" if payload["name"] == WORD else None

@mutator(events=["tools/call"], phase="both", priority_hint=10, timeout=0.25)
def first(payload): ...

@mutator(events=["tools/*"], phase="request", priority_hint=20)
def second(payload): ...

@sink(events=["*"], phase="response")
def tap(payload): ...

class Log:
    name = "log"
    durable = False
    async def observe(self, record): ...

@hookimpl
def midspan_interceptors(): return [check, first, second, tap]

@hookimpl
def midspan_observers(): return [Log()]
"""
WORDS = 'WORD = "rm"\n'
CONFIG = "[plugins.acme]\nenabled = true\n"


@dataclass
class Acme:
    """The guard `acme`: a distribution with a package and a RECORD, and the config that enables it.

    Attributes:
        site: the folder on the import path.
        config: the config file.
    """

    site: Path
    config: Path
    _install: Callable[..., Path] = field(repr=False)

    @property
    def lock_file(self) -> Path:
        return self.config.with_name("midspan.lock")

    def file(self, name: str) -> Path:
        return self.site / PACKAGE / name

    def install(
        self,
        name: str = "midspan-acme",
        *,
        version: str = "1.0",
        guard: str = GUARD,
        record: bool = True,
        requires: Sequence[str] = ("midspan-sdk<0.2,>=0.1",),
        more: Mapping[str, str] = {},
    ) -> None:
        site = self._install(name, version=version, plugins={"acme": PACKAGE}, requires=requires)
        assert site == self.site
        files = {"__init__.py": guard, "_words.py": WORDS, "py.typed": "", **more}
        for file, text in files.items():
            self.file(file).parent.mkdir(parents=True, exist_ok=True)
            self.file(file).write_text(text, encoding="utf-8")
        if record:
            info = f"{name.replace('-', '_')}-{version}.dist-info"
            # Hashes that are wrong: nobody may believe them.
            lines = [f"{PACKAGE}/{file},sha256=bm9uZQ,1" for file in files]
            lines += [f"{info}/{file},," for file in ("METADATA", "entry_points.txt", "RECORD", "INSTALLER")]
            lines += [f"{PACKAGE}/__pycache__/__init__.cpython-311.pyc,,", "../../../bin/acme,,"]
            (site / info / "RECORD").write_text("\n".join(lines) + "\n", encoding="utf-8")
            (site / info / "INSTALLER").write_text("pip\n", encoding="utf-8")
        forget()

    def uninstall(self, name: str = "midspan-acme", version: str = "1.0") -> None:
        shutil.rmtree(self.site / f"{name.replace('-', '_')}-{version}.dist-info")
        shutil.rmtree(self.site / PACKAGE)
        forget()


def forget() -> None:
    """Let the guard be imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def acme(fake_distribution: Callable[..., Path], tmp_path: Path) -> Acme:
    """Install the guard and write its lock."""
    config = tmp_path / "midspan.toml"
    config.write_text(CONFIG, encoding="utf-8")
    installed = Acme(tmp_path / "site", config, fake_distribution)
    installed.install()
    before = list(sys.meta_path)
    assert invoke(["plugins", "lock", "--config", str(config)]) == 0
    sys.meta_path[:] = before
    forget()
    return installed


@pytest.fixture(autouse=True)
def no_finder_of_another_test() -> Iterator[None]:
    """Take out what keeps importing packages from source."""
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before
