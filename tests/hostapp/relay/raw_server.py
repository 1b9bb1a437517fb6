"""A server that speaks lines, not MCP: it does what the line it got tells it to, byte for byte.

Run as `python -I -S raw_server.py OPTIONS`, with OPTIONS a JSON object:

    log         file to which every line is written as it arrived, before anything else is done
    at_start    steps to do before the first line
    at_end      steps to do when stdin has ended
    deaf        signal numbers to ignore
    stay        whether to stay when stdin has ended

A line that holds `"do":"<base64>"` is a program: a JSON array of steps. Any other line with an id and a method is
answered with `{"jsonrpc":"2.0","id":<as it came>,"result":{}}`. Steps:

    ["send", base64]        write these bytes to stdout
    ["flood", base64, n]    write these bytes n times
    ["long", a, n, b]       write base64 a, n times the letter x, and base64 b
    ["stderr", base64]      write these bytes to stderr
    ["read", n]             read and log n lines, and do nothing about them
    ["close", fd]           close a descriptor
    ["child", file]         start a grandchild in this group that stays, deaf as asked, and write its id to the file
    ["tell", file]          write this process's id, working directory and environment to the file as JSON
    ["kill", number]        send a signal to this process
    ["exit", code]          end
    ["hang"]                stop reading and wait for a signal
"""

import base64
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

OPTIONS = json.loads(sys.argv[1])
PROGRAM = re.compile(rb'"do": ?"([A-Za-z0-9+/=]*)"')
ID = re.compile(rb'"id": ?("(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+)')


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
            write(1, base64.b64decode(arguments[0]))
        elif name == "flood":
            line = base64.b64decode(arguments[0])
            for _ in range(arguments[1]):
                write(1, line)
        elif name == "long":
            write(1, base64.b64decode(arguments[0]) + b"x" * arguments[1] + base64.b64decode(arguments[2]))
        elif name == "stderr":
            write(2, base64.b64decode(arguments[0]))
        elif name == "read":
            for _ in range(arguments[0]):
                note(next(incoming))
        elif name == "close":
            os.close(arguments[0])
        elif name == "child":
            child(arguments[0])
        elif name == "tell":
            tell(arguments[0], {"pid": os.getpid(), "cwd": os.getcwd(), "environment": dict(os.environ)})
        elif name == "kill":
            os.kill(os.getpid(), arguments[0])
        elif name == "exit":
            os._exit(arguments[0])
        elif name == "hang":
            signal.pause()


def child(file: str) -> None:
    if os.fork():
        return
    tell(file, {"pid": os.getpid()})
    while True:
        signal.pause()


def tell(file: str, value: object) -> None:
    with open(file + ".new", "w") as target:
        json.dump(value, target)
    os.rename(file + ".new", file)


def note(line: bytes) -> None:
    write(log, line + b"\n")


def answer(line: bytes) -> None:
    if (program := PROGRAM.search(line)) is not None:
        do(json.loads(base64.b64decode(program[1])))
    elif b'"method"' in line and (found := ID.search(line)) is not None:
        write(1, b'{"jsonrpc":"2.0","id":' + found[1] + b',"result":{}}\n')


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
