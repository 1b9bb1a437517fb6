"""What is compared: the commands, and the environment that they run in."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "midspan-benchmarks"
FASTMCP: Final = "fastmcp==4.2.3"

PEER: Final = (sys.executable, str(HERE / "peer.py"))
BARE_RELAY: Final = (sys.executable, str(HERE / "bare_relay.py"))
MIDSPAN: Final = (sys.executable, "-m", "midspan")

NO_OPS: Final = """
from typing import Any
from midspan_sdk import hookimpl, mutator, validator

def no_op(kind: Any, number: int) -> Any:
    def does_nothing(payload: dict[str, Any]) -> None:
        return None
    return kind(events=["*"], phase="both", name=f"{kind.__name__}-{number}")(does_nothing)

@hookimpl
def midspan_interceptors() -> list[Any]:
    return [no_op(kind, number) for kind in (validator, mutator) for number in range(EACH)]
"""
"""As many validators as mutators that do nothing; `EACH` is put before."""
POLICY: Final = """
[plugins.policy]
enabled = true
[plugins.policy.config]
deny = ["delete_*"]
"""


class Files:
    """The files that the contenders need, in a folder of their own.

    Attributes:
        environment: what processes run with. Modules are compiled once, as on a user's machine, where compiling at
            every start would count as memory; and no config of whoever measures is read.
    """

    def __init__(self, folder: Path) -> None:
        self._no_ops = {count: folder / f"no_ops_{count}.py" for count in (2, 10)}
        for count, file in self._no_ops.items():
            file.write_text(f"EACH = {count // 2}\n{NO_OPS}")
        self._policy = folder / "policy.toml"
        self._policy.write_text(POLICY)
        self.environment: dict[str, str] = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("MIDSPAN_") and name != "PYTHONDONTWRITEBYTECODE"
        } | {"XDG_CONFIG_HOME": str(folder), "PYTHONPYCACHEPREFIX": str(CACHE / "bytecode")}

    def options(self) -> dict[str, list[str]]:
        """Return midspan's options by the name of the row."""
        no_ops = {f"midspan, {count} no-ops": ["--plugin-file", str(file)] for count, file in self._no_ops.items()}
        return {"midspan, relay only": [], **no_ops}

    def options_at_rest(self) -> dict[str, list[str]]:
        """Return the options to measure memory with."""
        return {"relay only": [], "policy plugin": ["--config", str(self._policy)]}


def fastmcp() -> str | None:
    """Return a Python that has FastMCP, in an environment made once; None when it cannot be made."""
    folder = CACHE / FASTMCP.replace("==", "-")
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = folder / "done"
    if not done.exists():
        uv = shutil.which("uv")
        if uv is None:
            return None
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        print(f"installing {FASTMCP} for comparison ...", file=sys.stderr)
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(folder)]
        install = [uv, "pip", "install", "--quiet", "--python", str(python), FASTMCP]
        # Outside of the project, whose constraints are not FastMCP's.
        if any(subprocess.run(command, cwd=folder.parent, check=False).returncode for command in (make, install)):
            return None
        done.touch()
    return str(python)


@contextlib.contextmanager
def serving(command: Sequence[str], environment: Mapping[str, str]) -> Generator[tuple[int, int]]:
    """Run a server that names its port on stderr; yields the port and the process's id."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(environment))
    assert process.stderr is not None
    try:
        line = ""
        while (found := re.search(r"\bserving \D*?(?:127\.0\.0\.1:)?(\d+)", line)) is None:
            line = process.stderr.readline()
            assert line, f"{command} ended"
        # A server that cannot write its log stands still.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
