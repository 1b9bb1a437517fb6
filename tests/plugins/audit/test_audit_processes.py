"""Several processes on one file, and a process that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import midspan_audit

PROCESS = Path(__file__).with_name("audited_process.py")


@contextmanager
def started(log: Path, *names: str, count: int) -> Generator[list[subprocess.Popen[str]], None, None]:
    """Start a process per name; all have the log open and begin now."""
    with ExitStack() as stack:
        processes: list[subprocess.Popen[str]] = []
        for name in names:
            command = [sys.executable, str(PROCESS), str(log), name, str(count)]
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        yield processes


def records(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text("ascii").splitlines()]


def verify(log: Path) -> int:
    (command,) = midspan_audit.midspan_commands()
    return command.run([str(log)])


def test_processes_that_append_at_once_write_whole_lines_of_one_chain(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with started(log, "a", "b", "c", count=150) as processes:
        printed = [line for process in processes for line in process.communicate(timeout=60)[0].split()]
        assert [process.returncode for process in processes] == [0, 0, 0]
    written = records(log)
    assert Counter(record["decision_id"] for record in written) == Counter(printed)
    assert Counter(record["server"] for record in written) == {"a": 150, "b": 150, "c": 150}
    assert verify(log) == 0
    switches = sum(one["server"] != other["server"] for one, other in pairwise(written))
    assert switches > 2, "the processes did not overlap, so nothing was proved"


def test_what_left_before_a_kill_is_in_the_file(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with started(log, "killed", count=0) as (process,):
        assert process.stdout is not None
        left = [process.stdout.readline().strip() for _ in range(50)]
        process.kill()
        left += process.stdout.read().split()
    assert {record["decision_id"] for record in records(log)} >= set(left)
    with started(log, "next", count=1) as (process,):
        assert process.wait(timeout=60) == 0
    assert verify(log) == 0
