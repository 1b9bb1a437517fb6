"""Commands for an environment that no other tool keeps a record of: pip, or uv where there is no pip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from midspan.errors import OperatorError
from midspan.installing._commands import Command
from midspan.installing._environment import Environment
from midspan.installing._specs import Spec

_MANAGED = (
    "nothing can be installed here: the system manages this Python (PEP 668). Install midspan with "
    "`uv tool install midspan`, `pipx install midspan`, or into a virtual environment, and run this command there"
)


def pip_commands(
    environment: Environment, specs: Sequence[Spec], *, upgrade: bool, constraints: Path
) -> Iterator[Command]:
    """Yield the command that installs into an environment with pip, or with uv.

    Raises:
        OperatorError: the environment is managed by something else, or there is neither pip nor uv.
    """
    if environment.externally_managed:
        raise OperatorError(_MANAGED)
    if not environment.has_pip:
        uv = environment.program("uv")
        if uv is None:
            raise OperatorError(
                f"the environment {environment.prefix} has no pip, and uv is not on PATH: "
                f"run `{environment.python} -m ensurepip`, or install uv"
            )
        yield uv_pip_command(uv, environment, specs, upgrade=upgrade, options=("--constraints", str(constraints)))
        return
    # -P: a pip.py in the working directory is not pip.
    command = [environment.python, "-P", "-m", "pip", "install", "--constraint", str(constraints)]
    if upgrade:
        command.append("--upgrade")
    yield Command(arguments=(*command, *_arguments(specs)), called="pip install")


def uv_pip_command(
    uv: str, environment: Environment, specs: Sequence[Spec], *, upgrade: bool, options: Sequence[str]
) -> Command:
    """Return the command that installs into an environment with uv.

    Args:
        uv: the program.
        environment: where to.
        specs: what.
        upgrade: whether a later version replaces the installed one.
        options: further options.
    """
    command = [uv, "pip", "install", "--python", environment.python, *options]
    if upgrade:
        # `--upgrade` would upgrade everything else in the environment, too.
        command += [word for spec in specs if spec.name for word in ("--upgrade-package", spec.name)]
    return Command(arguments=(*command, *_arguments(specs)), called="uv pip install")


def _arguments(specs: Sequence[Spec]) -> list[str]:
    return [word for spec in specs for word in (("--editable", spec.text) if spec.editable else (spec.text,))]
