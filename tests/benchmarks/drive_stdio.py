"""A raw client over stdio: lines written to a process, lines read from it, and a clock."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Final

from drive import AT_ONCE, INITIALIZE, INITIALIZED, NoResultError, call

_ID: Final = re.compile(rb'"id": ?(\d+)')
_EDGE: Final = 100


class StdioSession:
    """One session with a server that it starts.

    Args:
        command: the server's, or that of what stands in front of it.
        environment: the process's.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            bufsize=2**18,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in = self._process.stdin
        self._out = self._process.stdout
        self._number = 0
        self._send(INITIALIZE)
        self._receive()
        self._send(INITIALIZED)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def in_turn(self, size: int, count: int) -> list[float]:
        """Call the tool again and again; returns the seconds of each call."""
        return self._calls(size, count, at_once=1)

    def at_once(self, size: int, count: int) -> list[float]:
        """Call the tool with many calls under way; returns the seconds of each call."""
        return self._calls(size, count, at_once=AT_ONCE)

    def _calls(self, size: int, count: int, at_once: int) -> list[float]:
        started: dict[int, float] = {}
        taken: list[float] = []
        left = count

        def begin() -> None:
            self._number += 1
            line = call(self._number, size)
            started[self._number] = perf_counter()
            self._send(line)

        while left or started:
            while left and len(started) < at_once:
                begin()
                left -= 1
            length, number = self._receive()
            taken.append(perf_counter() - started.pop(number))
            if length < size:
                raise NoResultError
        return taken

    def _send(self, line: bytes) -> None:
        self._in.write(line + b"\n")
        self._in.flush()

    def _receive(self) -> tuple[int, int]:
        """Read until an answer comes; returns its length and its id."""
        while True:
            line = self._out.readline()
            assert line, "the process ended"
            # The text of a result holds no id, and every contender writes it first or last.
            if (found := _ID.search(line[:_EDGE]) or _ID.search(line[-_EDGE:])) is not None:
                return len(line), int(found[1])

    def close(self) -> None:
        """End the process as a client does: close its input, wait, insist."""
        self._in.close()
        self._out.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
