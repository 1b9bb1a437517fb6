"""Importing what is enabled."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import redirect_stdout

import importlib_metadata

from midspan.plugins._causes import cause_of
from midspan.plugins._discovery import GROUP
from midspan.plugins._file import run_file
from midspan.plugins._info import PluginInfo
from midspan.plugins._plugin import Plugin


def load(info: PluginInfo) -> Plugin:
    """Import a plugin and read its hooks.

    What it prints at import goes to stderr: stdout may be a protocol's.

    Raises:
        PluginError: it cannot be imported, or a hook of it is not acceptable.
    """
    try:
        with redirect_stdout(sys.stderr):
            loaded = _importer(info)()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # A module may raise anything at import, SystemExit included; it must not end the host in silence.
        raise info.error(f"cannot be imported: {cause_of(error)}") from error
    if inspect.isclass(loaded):
        raise info.error(f"its entry point names the class {loaded.__name__}; name a module or an instance")
    return Plugin(info, loaded)


def _importer(info: PluginInfo) -> Callable[[], object]:
    if info.file is not None:
        file = info.file
        return lambda: run_file(info.id, file)
    return importlib_metadata.EntryPoint(info.id, info.value, GROUP).load
