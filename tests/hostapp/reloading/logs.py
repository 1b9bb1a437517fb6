"""Waiting for what midspan logs."""

from __future__ import annotations

import asyncio


async def log_line(process: asyncio.subprocess.Process, *words: str) -> str:
    """Read the log until a line has one of the words, and return that line."""
    assert process.stderr is not None
    while True:
        line = (await process.stderr.readline()).decode().rstrip()
        assert line, "midspan has ended"
        assert not any(word in line for word in ("Traceback", "py.warnings")), line
        if any(word in line for word in words):
            return line


async def log_lines(process: asyncio.subprocess.Process, last: str) -> list[str]:
    """Read the log up to a line that has a word, and return all."""
    assert process.stderr is not None
    lines: list[str] = []
    while not lines or last not in lines[-1]:
        lines.append((await process.stderr.readline()).decode().rstrip())
        assert lines[-1], lines
        assert "py.warnings" not in lines[-1]
    return lines
