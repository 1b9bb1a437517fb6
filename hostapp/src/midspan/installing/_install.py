"""From what an operator wants installed to the commands that do it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import importlib_metadata

from midspan.errors import OperatorError
from midspan.installing._commands import Command
from midspan.installing._environment import Environment
from midspan.installing._pip import pip_commands
from midspan.installing._pipx import pipx_commands
from midspan.installing._specs import HOST, read_specs
from midspan.installing._uv_tool import uv_tool_commands


def install(
    specs: Sequence[str],
    *,
    editable: Sequence[str] = (),
    upgrade: bool = False,
    environment: Environment | None = None,
) -> None:
    """Install distributions into an environment, with the tool that made it.

    The installed versions of midspan and midspan-sdk stay: what does not go with them is not installed. What the
    installer writes goes to stderr as it is. Nothing that is installed is enabled.

    Args:
        specs: requirements such as `midspan-pii>=0.2`, URLs, and paths of archives or project folders.
        editable: paths of project folders whose sources stay where they are.
        upgrade: whether later versions replace those that are installed.
        environment: where to; None for the one of this process.

    Raises:
        OperatorError: a spec cannot be read, nothing can be installed here, or the installer failed.
    """
    environment = environment or Environment()
    with TemporaryDirectory(prefix="midspan-install-") as folder:
        # All of them first, so that nothing is changed when one cannot be made.
        for command in list(_commands(specs, editable, upgrade, environment, Path(folder))):
            command.run(environment.prefix)


def commands_for(
    specs: Sequence[str],
    *,
    editable: Sequence[str] = (),
    upgrade: bool = False,
    environment: Environment | None = None,
) -> list[str]:
    """Return the commands that `install` would run, as for a shell; without credentials.

    The files of constraints that they name hold the installed versions of midspan and midspan-sdk, and are not there.

    Raises:
        OperatorError: a spec cannot be read, or nothing can be installed here.
    """
    with TemporaryDirectory(prefix="midspan-install-") as folder:
        commands = _commands(specs, editable, upgrade, environment or Environment(), Path(folder))
        return [str(command) for command in commands]


def _commands(
    specs: Sequence[str], editable: Sequence[str], upgrade: bool, environment: Environment, folder: Path
) -> Iterator[Command]:
    wanted = read_specs(specs, editable)
    if not wanted:
        raise OperatorError("nothing to install: name a package, a path or a URL")
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in _pins()), encoding="utf-8")
    if (receipt := environment.uv_receipt) is not None:
        return uv_tool_commands(environment, receipt, wanted, upgrade=upgrade, constraints=constraints)
    if (metadata := environment.pipx_metadata) is not None:
        return pipx_commands(environment, metadata, wanted, upgrade=upgrade, constraints=constraints)
    return pip_commands(environment, wanted, upgrade=upgrade, constraints=constraints)


def _pins() -> Iterator[str]:
    for name in HOST:
        try:
            yield f"{name}=={importlib_metadata.version(name)}"
        except importlib_metadata.PackageNotFoundError:
            continue
