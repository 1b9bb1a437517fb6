"""`midspan plugins install`: into the environment that midspan runs in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from midspan.cli._output import echo, print_warning
from midspan.config import find_config, read_source
from midspan.errors import OperatorError
from midspan.installing import commands_for, install, unmet_requirements
from midspan.plugins import PluginInfo, discover

_LIST = (
    "import json; from midspan.plugins import discover; "
    "print(json.dumps([[info.id, info.distribution, info.version, info.reason] for info in discover()]))"
)
_Row = tuple[str, str | None, str | None, str | None]


def install_plugins(
    specs: Sequence[str], config: Path | None, *, editable: Sequence[str], upgrade: bool, dry_run: bool
) -> None:
    """Install plugins, and say which are new.

    Args:
        specs: what to install; with no `editable` either, what the config requires.
        config: the file given by `--config`, or None.
        editable: project folders.
        upgrade: whether later versions replace those that are installed.
        dry_run: print the commands only.

    Raises:
        OperatorError: a spec cannot be read, nothing can be installed here, or the installer failed.
    """
    if not specs and not editable:
        specs = _required(config, upgrade=upgrade)
        if not specs:
            echo("everything that the config requires is installed")
            return
    if dry_run:
        for command in commands_for(specs, editable=editable, upgrade=upgrade):
            echo(command)
        return
    before = {_row(info) for info in discover()}
    install(specs, editable=editable, upgrade=upgrade)
    _say_what_is_new(before)


def _required(config: Path | None, *, upgrade: bool) -> list[str]:
    """Return what the config requires and is not installed; for an upgrade, all that it requires."""
    source = read_source(find_config(config))
    requires: object = source.data.get("requires", [])
    if not isinstance(requires, list) or not all(isinstance(one, str) for one in cast("list[object]", requires)):
        raise source.error('must be a list of requirements, such as ["midspan-pii>=0.2"]', "requires")
    required = cast("list[str]", requires)
    if not required:
        raise OperatorError(
            "nothing to install: name a package, a path or a URL, or list what you need as `requires` in the config"
        )
    return required if upgrade else [unmet.requirement for unmet in unmet_requirements(required)]


def _say_what_is_new(before: set[_Row]) -> None:
    new = [row for row in _installed_now() if row not in before]
    if not new:
        echo("no plugin is new, and none has another version")
    for plugin, distribution, version, reason in new:
        echo(f"{plugin}  {distribution} {version}")
        if reason is not None:
            print_warning(f"plugin {plugin!r} ({distribution} {version}) cannot run: {reason}")
    known = {row[0] for row in before}
    to_enable = [row[0] for row in new if row[0] not in known and row[3] is None]
    if to_enable:
        echo(f"nothing is enabled by installing: midspan plugins enable {' '.join(dict.fromkeys(to_enable))}")


def _row(info: PluginInfo) -> _Row:
    return info.id, info.distribution, info.version, info.reason


def _installed_now() -> list[_Row]:
    # A process of its own: this one keeps the import path that it started with, and an editable install adds to it.
    done = subprocess.run([sys.executable, "-P", "-c", _LIST], stdout=subprocess.PIPE, check=False)  # noqa: S603 - its own interpreter
    if done.returncode:
        raise OperatorError("installed, but the plugins cannot be listed any more: see `midspan plugins list`")
    return [tuple(row) for row in json.loads(done.stdout)]
