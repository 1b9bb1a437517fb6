"""A server that speaks lines, not MCP: it does what the line it got tells it to, byte for byte.

Run as `python -I -S raw_server.py OPTIONS`, with OPTIONS a dict, marshalled and in base64:

    log         file to which every line is written as it arrived, before anything else is done
    at_start    steps to do before the first line
    at_end      steps to do when stdin has ended
    deaf        signal numbers to ignore
    stay        whether to stay when stdin has ended

A line that holds `"do":"<base64>"` is a program: a list of steps, marshalled. Any other line with an id and a method is
answered with `{"jsonrpc":"2.0","id":<as it came>,"result":{}}`. Steps:

    ("send", base64)        write these bytes to stdout
    ("flood", base64, n)    write these bytes n times
    ("long", a, n, b)       write base64 a, n times the letter x, and base64 b
    ("stderr", base64)      write these bytes to stderr
    ("read", n)             read and log n lines, and do nothing about them
    ("close", fd)           close a descriptor
    ("child", file, ...)    start a grandchild that stays, deaf as this process is, and write its id to the file; with
                            "group" in a group of its own, "session" in a session of its own, "daemon" in one whose
                            leader has ended, "deaf" to SIGTERM, "polite" telling of SIGTERM in file.asked, "brief"
                            without staying; with any of these it does not hold the output
    ("tell", file)          write this process's id, working directory and environment to the file as JSON
    ("kill", number)        send a signal to this process
    ("exit", code)          end
    ("hang",)               stop reading and wait for a signal

Hundreds of tests start it, so it imports next to nothing: a third of the time that json, re and signal would take.
"""

from __future__ import annotations

import marshal
import os
import sys
from binascii import a2b_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Sequence
    from typing import Any
else:
    import _signal as signal

OPTIONS: dict[str, Any] = marshal.loads(a2b_base64(sys.argv[1]))


def write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read() -> bytes:
    try:
        return os.read(0, 65536)
    except OSError:  # closed as told
        return b""


def lines() -> Iterator[bytes]:
    kept: list[bytes] = []
    while chunk := read():
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*kept, line])
            kept.clear()
        kept.append(rest)
    if any(kept):
        yield b"".join(kept)


def do(steps: Sequence[Sequence[Any]]) -> None:
    for name, *arguments in steps:
        if name == "send":
            write(1, a2b_base64(arguments[0]))
        elif name == "flood":
            line = a2b_base64(arguments[0])
            for _ in range(arguments[1]):
                write(1, line)
        elif name == "long":
            write(1, a2b_base64(arguments[0]) + b"x" * arguments[1] + a2b_base64(arguments[2]))
        elif name == "stderr":
            write(2, a2b_base64(arguments[0]))
        elif name == "read":
            for _ in range(arguments[0]):
                note(next(incoming))
        elif name == "close":
            os.close(arguments[0])
        elif name == "child":
            child(*arguments)
        elif name == "tell":
            tell(arguments[0], {"pid": os.getpid(), "cwd": os.getcwd(), "environment": dict(os.environ)})
        elif name == "kill":
            os.kill(os.getpid(), arguments[0])
        elif name == "exit":
            os._exit(arguments[0])
        elif name == "hang":
            signal.pause()


def child(file: str, *ways: str) -> None:
    if started := os.fork():
        if "daemon" in ways:
            os.waitpid(started, 0)
        return
    if "session" in ways or "daemon" in ways:
        os.setsid()
    if "group" in ways:
        os.setpgid(0, 0)
    if "daemon" in ways and os.fork():
        os._exit(0)
    if "deaf" in ways:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "polite" in ways:
        signal.signal(signal.SIGTERM, lambda number, frame: (tell(file + ".asked", True), os._exit(0)))
    if ways:
        os.close(0)
        os.close(1)
    tell(file, {"pid": os.getpid()})
    if "brief" in ways:
        os._exit(0)
    while True:
        signal.pause()


def tell(file: str, value: object) -> None:
    import json

    with open(file + ".new", "w") as target:
        json.dump(value, target)
    os.rename(file + ".new", file)


def note(line: bytes) -> None:
    write(log, line + b"\n")


def after(line: bytes, key: bytes) -> bytes | None:
    """Return what follows a key, up to the end of the value's text or number."""
    _, found, rest = line.partition(b'"' + key + b'":')
    rest = rest.removeprefix(b" ")
    if not found:
        return None
    if not rest.startswith(b'"'):
        return rest[: len(rest) - len(rest.lstrip(b"-+.0123456789eE"))] or None
    end = 1
    while rest[end : end + 1] != b'"':
        end += 2 if rest[end : end + 1] == b"\\" else 1
    return rest[: end + 1]


def answer(line: bytes) -> None:
    if (program := after(line, b"do")) is not None:
        do(marshal.loads(a2b_base64(program[1:-1])))
    elif b'"method"' in line and (message_id := after(line, b"id")) is not None:
        write(1, b'{"jsonrpc":"2.0","id":' + message_id + b',"result":{}}\n')


for number in OPTIONS.get("deaf", ()):
    signal.signal(number, signal.SIG_IGN)
log = os.open(OPTIONS["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
incoming = lines()
do(OPTIONS.get("at_start", ()))
for each in incoming:
    note(each)
    answer(each)
do(OPTIONS.get("at_end", ()))
while OPTIONS.get("stay"):
    signal.pause()
