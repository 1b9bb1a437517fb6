"""Plugin files: one local Python file as a plugin (`--plugin-file`)."""

from __future__ import annotations

import re
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from midspan.errors import OperatorError
from midspan.plugins._info import PluginInfo


def file_plugin(path: Path) -> PluginInfo:
    """Describe a plugin file, without running it. Its id is the file's stem, made a valid id: `no_rm.py` is `no-rm`.

    Raises:
        OperatorError: there is no such file.
    """
    if not path.is_file():
        problem = "is no file" if path.exists() else "no such file"
        raise OperatorError(f"--plugin-file {path}: {problem}")
    return PluginInfo(id=_id_of(path.stem), value=str(path), file=path)


def module_name(plugin: str) -> str:
    """Return the name that a plugin file's module gets, from the plugin's id."""
    return f"midspan_plugin_file_{plugin.replace('-', '_')}"


def run_file(plugin: str, path: Path) -> ModuleType:
    """Run a plugin file as a module.

    Its folder does not get onto the import path, and no bytecode is written beside it: what stands there besides was
    not named by the operator.
    """
    name = module_name(plugin)
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    code = compile(loader.get_data(str(path)), str(path), "exec", dont_inherit=True)
    # Dataclasses and pydantic look a class's module up by name.
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)  # noqa: S102 - the operator named this file to be run
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _id_of(stem: str) -> str:
    text = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    return text if text[:1].isalpha() else f"file-{text}".rstrip("-")
