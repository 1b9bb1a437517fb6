"""Under the lock, what runs is what was hashed."""

from __future__ import annotations

import importlib
import marshal
import os
import struct
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

from midspan.locking import locked_imports

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


def test_what_a_plugin_imports_later_comes_from_source_too(acme: Acme) -> None:
    acme.file("later.py").write_text("WORD = 'later'\n")
    tamper(acme.file("later.py"), "WORD = 'tampered'")
    assert importlib.import_module("locked_acme.later").WORD == "tampered"
    forget()
    with locked_imports():
        importlib.import_module("locked_acme")
    assert importlib.import_module("locked_acme.later").WORD == "later"
    assert importlib.import_module("locked_acme.later").__file__ == str(acme.file("later.py"))


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
