"""Commands for an environment of `uv tool`.

Two commands. The first installs with the constraints that hold midspan at its version. Constraints of `uv tool install`
would be recorded, and midspan never be upgraded again; so the second, without them, finds everything installed and
records it, for `uv tool upgrade` to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from midspan.errors import OperatorError
from midspan.installing._commands import Command
from midspan.installing._environment import Environment
from midspan.installing._pip import uv_pip_command
from midspan.installing._receipt import Receipt, Recorded, read_receipt
from midspan.installing._specs import Spec

_NOT_RECORDED = "the plugins are installed but not recorded, and `uv tool upgrade` would remove them: run this again"


def uv_tool_commands(
    environment: Environment, receipt_file: Path, specs: Sequence[Spec], *, upgrade: bool, constraints: Path
) -> Iterator[Command]:
    """Yield the commands that install into an environment of `uv tool`.

    Raises:
        OperatorError: uv is not found, or the receipt cannot be kept.
    """
    uv = environment.program("uv")
    if uv is None:
        raise OperatorError(
            "midspan was installed with `uv tool`, and uv is not on PATH: put it there, and run this command again"
        )
    receipt = read_receipt(receipt_file)
    shared = [*receipt.options, *_kept_files(receipt, constraints.parent)]
    yield uv_pip_command(uv, environment, specs, upgrade=upgrade, options=[*shared, "--constraints", str(constraints)])
    tool = _tool(receipt, environment.prefix.name, receipt_file)
    python = ["--python", receipt.python] if receipt.python else []
    yield Command(
        arguments=(uv, "tool", "install", *shared, *python, *_target(tool), *_with(receipt, tool, specs)),
        called="uv tool install",
        environment=_variables(environment, receipt),
        failed=_NOT_RECORDED,
    )


def _tool(receipt: Receipt, name: str, file: Path) -> Recorded:
    """Return the requirement that the environment is named after."""
    for requirement in receipt.requirements:
        if _normal(requirement.name) == _normal(name):
            return requirement
    raise OperatorError(f"{file}: this record of `uv tool` does not require {name!r}: install that tool again")


def _target(tool: Recorded) -> tuple[str, ...]:
    return ("--editable", tool.text) if tool.editable else (tool.text,)


def _with(receipt: Receipt, tool: Recorded, specs: Sequence[Spec]) -> Iterator[str]:
    """Yield what was there before, unless it is now wanted otherwise, and what is new."""
    replaced = {spec.name for spec in specs}
    commands = {_normal(name) for name in receipt.with_commands}
    for requirement in receipt.requirements:
        name = _normal(requirement.name)
        if requirement is tool or name in replaced:
            continue
        if name in commands and not requirement.editable:
            yield from ("--with-executables-from", requirement.text)
        else:
            yield from ("--with-editable" if requirement.editable else "--with", requirement.text)
    for spec in specs:
        if spec.name in commands and not spec.editable:
            yield from ("--with-executables-from", spec.text)
        else:
            yield from ("--with-editable" if spec.editable else "--with", spec.text)


def _kept_files(receipt: Receipt, folder: Path) -> Iterator[str]:
    for option, lines in receipt.files.items():
        file = folder / f"kept-{option.strip('-')}.txt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield from (option, str(file))


def _variables(environment: Environment, receipt: Receipt) -> dict[str, str]:
    """Return where uv is to find this environment, whatever its own settings say now."""
    variables = {"UV_TOOL_DIR": str(environment.prefix.parent)}
    if receipt.commands is not None:
        variables["UV_TOOL_BIN_DIR"] = str(receipt.commands)
    if receipt.python is None:
        # Another one that is asked for by a variable would make uv throw this environment away.
        variables["UV_PYTHON"] = ""
    return variables


def _normal(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)
