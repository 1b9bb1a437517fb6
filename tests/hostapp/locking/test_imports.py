"""Under the lock, what runs is what was hashed."""

from __future__ import annotations

import importlib
import marshal
import os
import struct
import sys
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

from midspan.cli._group import invoke
from midspan.locking import locked_imports, read_lock
from midspan.plugins import Builder

from .conftest import Acme, forget


def tamper(source: Path, code: str) -> None:
    """Write bytecode that Python takes for that of an unchanged source."""
    cached = Path(cache_from_source(str(source)))
    cached.parent.mkdir(exist_ok=True)
    there = source.stat()
    header = struct.pack("<4sLLL", MAGIC_NUMBER, 0, int(there.st_mtime), there.st_size)
    cached.write_bytes(header + marshal.dumps(compile(code, str(source), "exec")))


def word() -> str:
    forget()
    return importlib.import_module("locked_acme._words").WORD


def test_python_runs_tampered_bytecode_and_the_lock_does_not_let_it(acme: Acme) -> None:
    tamper(acme.file("_words.py"), "WORD = 'tampered'")
    assert word() == "tampered"
    with locked_imports():
        assert word() == "rm"


def test_what_a_plugin_and_its_requirements_import_later_comes_from_source_too(
    acme: Acme, fake_distribution: Callable[..., Path]
) -> None:
    fake_distribution("acme-words", modules={"acme_words": "WORD = 'later'\n"}, requires=[])
    acme.uninstall()
    acme.install(requires=["acme-words"], more={"later.py": "WORD = 'later'\n"})
    tamper(acme.file("later.py"), "WORD = 'tampered'")
    tamper(acme.site / "acme_words.py", "WORD = 'tampered'")
    later = ["locked_acme.later", "acme_words"]
    assert [importlib.import_module(name).WORD for name in later] == ["tampered", "tampered"]

    assert invoke(["plugins", "lock", "--config", str(acme.config)]) == 0
    Builder(config=acme.config, gives=("session", "store", "tools", "ask"), locked=read_lock(acme.lock_file)).assembly()
    for name in later:
        del sys.modules[name]
    modules = [importlib.import_module(name) for name in later]
    assert [module.WORD for module in modules] == ["later", "later"]
    assert [module.__file__ for module in modules] == [str(acme.file("later.py")), str(acme.site / "acme_words.py")]


def test_nothing_is_written_and_afterwards_imports_are_as_before(acme: Acme) -> None:
    before = sys.pycache_prefix, sys.dont_write_bytecode
    cache = acme.file("__pycache__")
    written = set(os.listdir(cache)) if cache.exists() else set[str]()
    with locked_imports():
        assert sys.pycache_prefix is not None
        word()
        assert not Path(sys.pycache_prefix).exists()
    assert (sys.pycache_prefix, sys.dont_write_bytecode) == before
    assert (set(os.listdir(cache)) if cache.exists() else set[str]()) == written
