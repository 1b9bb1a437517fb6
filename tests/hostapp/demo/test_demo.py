"""`midspan demo` as a person or a script starts it: a process, in a folder that is nobody's friend."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from midspan.demo.props import demo_access_key, demo_token

COMMAND = [str(Path(sys.executable).parent / "midspan"), "demo"]
WIDTH = 80
HOSTILE_CODE = 'open({marker!r}, "a").write(__name__ + "\\n")\nraise SystemExit("taken over")\n'
HOSTILE_CONFIG = "[plugins.nobody-has-this]\nenabled = true\n"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ROW = re.compile(r"    (client sends|server gets|server sends|client gets|\w+) +(.*)")
DECISION_OR_TIME = re.compile(r"\b[0-9a-f]{16}\b|\d{4}-\d\d-\d\dT[0-9:.+]+")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one run of the demo showed and left behind."""

    code: int
    stdout: str
    stderr: str
    home: Path
    temporary: Path
    marker: Path
    working_directory: Path

    @property
    def left_behind(self) -> list[str]:
        """Names of whatever is in the home, the temporary folder, or new in the working directory."""
        found = [*self.home.rglob("*"), *self.temporary.rglob("*"), *self.working_directory.rglob("*")]
        return sorted(path.name for path in found if path.is_file())

    def scene(self, number: int) -> dict[str, str]:
        """Return the rows of a scene by their labels, each joined to one line."""
        _, _, rest = self.stdout.partition(f" {number}. ")
        rows: dict[str, str] = {}
        label = ""
        for line in rest.split("\n\n")[0].splitlines()[1:]:
            if match := ROW.fullmatch(line.rstrip()):
                label, rows[match[1]] = match[1], match[2]
            else:
                rows[label] += " " + line.strip()
        return rows


def demo(folder: Path, run: Callable[[Mapping[str, str], Path], tuple[int, str, str]]) -> Shown:
    """Run the demo in a working directory that wants to take part in it."""
    home, temporary, cwd, marker = (folder / name for name in ("home", "temporary", "repository", "marker"))
    for each in (home, temporary, cwd):
        each.mkdir(parents=True)
    for config in (cwd / "midspan.toml", cwd / ".config" / "midspan" / "midspan.toml"):
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(HOSTILE_CONFIG, encoding="utf-8")
    code = HOSTILE_CODE.format(marker=str(marker))
    for module in ("mcp.py", "midspan_policy.py", "rich.py", "midspan/__init__.py", "midspan/__main__.py"):
        (cwd / module).parent.mkdir(exist_ok=True)
        (cwd / module).write_text(code, encoding="utf-8")
    environment = {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "TERM": "xterm-256color",
        "TMPDIR": str(temporary),
    }
    returned, stdout, stderr = run(environment, cwd)
    return Shown(
        code=returned,
        stdout=stdout,
        stderr=stderr,
        home=home,
        temporary=temporary,
        marker=marker,
        working_directory=cwd,
    )


def run_piped(environment: Mapping[str, str], cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=False, timeout=120, env=environment, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


def run_in_terminal(environment: Mapping[str, str], cwd: Path) -> tuple[int, str, str]:
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    with subprocess.Popen(COMMAND, stdin=end, stdout=end, stderr=subprocess.PIPE, env=environment, cwd=cwd) as process:
        os.close(end)
        shown = bytearray()
        try:
            while chunk := os.read(terminal, 65536):
                shown += chunk
        except OSError:  # how Linux says that the last one who could write has gone
            pass
        finally:
            os.close(terminal)
        assert process.stderr is not None
        stderr = process.stderr.read().decode()
        return process.wait(120), shown.decode().replace("\r\n", "\n"), stderr


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return demo(tmp_path_factory.mktemp("piped"), run_piped)


@pytest.fixture(scope="module")
def in_terminal(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return demo(tmp_path_factory.mktemp("terminal"), run_in_terminal)


def test_the_demo_ends_well_and_says_nothing_beside(piped: Shown) -> None:
    assert (piped.code, piped.stderr) == (0, "")


def test_piped_output_is_plain_and_fits_into_eighty_columns(piped: Shown) -> None:
    assert piped.stdout.replace("\n", "").isprintable()
    assert [line for line in piped.stdout.splitlines() if len(line) > WIDTH] == []


def test_all_four_scenes_go_as_their_titles_say(piped: Shown) -> None:
    titles = re.findall(r"^(.) (\d)\. (\w+)", piped.stdout, flags=re.MULTILINE)
    assert titles == [("✓", "1", "Allowed"), ("✓", "2", "Blocked"), ("✓", "3", "A"), ("✓", "4", "A")]


def test_the_allowed_call_is_the_same_at_both_ends(piped: Shown) -> None:
    scene = piped.scene(1)
    assert scene["client sends"] == scene["server gets"]
    assert scene["server sends"] == scene["client gets"]


def test_the_blocked_call_never_comes_to_the_server_and_the_tool_is_hidden(piped: Shown) -> None:
    scene = piped.scene(2)
    assert scene["server gets"] == "nothing"
    assert "server sends" not in scene
    assert "policy.call" in scene["client gets"]
    assert "did not run" in scene["client gets"]
    assert re.search(r"hidden by policy:\s+delete_note\.", piped.stdout)


def test_a_planted_secret_is_only_where_it_was_planted(piped: Shown) -> None:
    out, back = piped.scene(3), piped.scene(4)
    assert demo_token() in out["client sends"]
    assert "[REDACTED:github-token]" in out["server gets"]
    assert demo_access_key() in back["server sends"]
    assert "[REDACTED:aws-access-key-id]" in back["client gets"]
    everything = re.sub(r"\s", "", piped.stdout)
    assert everything.count(demo_token()) == 1
    assert everything.count(demo_access_key()) == 1


def test_the_audit_and_the_next_steps_are_shown(piped: Shown) -> None:
    _, _, audit = piped.stdout.partition("\nAudit: ")
    assert re.match(r"\d+ decisions were on file before their messages left, 1 of them", audit)
    assert re.search(r"^    target +delete_note *$", audit, flags=re.MULTILINE)
    assert re.search(r"^    arrived_digest +sha256:[0-9a-f]+", audit, flags=re.MULTILINE)
    assert re.search(r"^    midspan run --plugin secrets -- COMMAND", audit, flags=re.MULTILINE)


def test_in_a_terminal_the_same_text_is_coloured(in_terminal: Shown, piped: Shown) -> None:
    assert in_terminal.code == 0
    for mark in ("\x1b[32m✓", "\x1b[1;31mnothing", "\x1b[33m"):
        assert mark in in_terminal.stdout
    assert DECISION_OR_TIME.sub("?", COLOUR.sub("", in_terminal.stdout)) == DECISION_OR_TIME.sub("?", piped.stdout)


@pytest.mark.parametrize("place", ["piped", "in_terminal"])
def test_a_hostile_working_directory_takes_no_part_and_nothing_is_left_behind(
    place: str, request: pytest.FixtureRequest
) -> None:
    shown: Shown = request.getfixturevalue(place)
    assert not shown.marker.exists()
    assert "nobody-has-this" not in shown.stdout + shown.stderr
    planted = ["__init__.py", "__main__.py", "mcp.py", "midspan.toml", "midspan.toml", "midspan_policy.py", "rich.py"]
    assert shown.left_behind == planted
