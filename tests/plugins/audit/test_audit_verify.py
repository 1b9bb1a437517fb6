"""`midspan audit verify`: what it finds, and where."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import midspan_audit
from midspan_audit import AuditConfig
from midspan_sdk import Chain

COUNT = 6

Verify = Callable[..., tuple[int, str]]


def write_log(path: Path, *, key_file: Path | None = None, count: int = COUNT) -> list[bytes]:
    """Write a log with the real observer and return its lines."""

    async def main() -> None:
        config = AuditConfig(path=path, key_file=key_file)
        async with midspan_audit.midspan_lifespan(config, "audit"):
            chain = Chain(observers=midspan_audit.midspan_observers(config, "audit"))
            for number in range(count):
                await chain.execute(event="tools/call", phase="request", payload={"name": f"tool-{number}"})

    anyio.run(main)
    return path.read_bytes().splitlines(keepends=True)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    return write_log(tmp_path_factory.mktemp("log") / "audit.jsonl")


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    def run(*arguments: str | Path) -> tuple[int, str]:
        (command,) = midspan_audit.midspan_commands()
        assert command.name == "verify"
        code = command.run([str(argument) for argument in arguments])
        said = "".join(capsys.readouterr())
        return code, said

    return run


def head_of(said: str) -> str:
    found = re.search(r"head (\S+)", said)
    assert found is not None
    return found[1]


def test_a_whole_log_passes_and_shows_its_head(tmp_path: Path, lines: list[bytes], verify: Verify) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    code, said = verify(path)
    assert code == 0
    assert said.startswith(f"{path}: 6 records, the chain is whole; head 6:sha256:")
    assert said.count("\n") == 1
    assert verify(path, "--head", head_of(said))[0] == 0


def test_an_empty_log_passes(tmp_path: Path, verify: Verify) -> None:
    path = tmp_path / "log"
    path.touch()
    assert verify(path) == (0, f"{path}: 0 records, the chain is whole\n")


def swapped(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[3], lines[2], *lines[4:]]


CHANGES: list[tuple[Callable[[list[bytes]], list[bytes]], int, str]] = [
    (lambda lines: [*lines[:2], lines[2].replace(b"tool-2", b"tool-9"), *lines[3:]], 3, "edited"),
    (lambda lines: [*lines[:5], lines[5].replace(b"tool-5", b"tool-9")], 6, "edited"),
    (lambda lines: [*lines[:2], *lines[3:]], 3, "removed: record 3 is missing"),
    (lambda lines: [*lines[:1], *lines[4:]], 2, "removed: records 2 to 4 are missing"),
    (lambda lines: lines[2:], 1, "removed: records 1 to 2 are missing"),
    (swapped, 3, "reordered: record 3 comes later"),
    (lambda lines: [*lines, lines[1]], 7, "reordered: record 2 comes after record 6"),
    (lambda lines: [*lines[:3], b"something else\n", *lines[3:]], 4, "not a record"),
    (lambda lines: [*lines[:3], b"\n", *lines[3:]], 4, "not a record"),
    (lambda lines: [*lines[:3], b"[" * 3_000_000 + b"\n"], 4, "not a record"),
    (lambda lines: [*lines[:5], lines[5][:-1]], 6, "truncated"),
    (lambda lines: [*lines[:5], lines[5][:40]], 6, "truncated"),
]


@pytest.mark.parametrize(("change", "line", "problem"), CHANGES)
def test_the_first_bad_line_is_named_with_what_happened_to_it(
    change: Callable[[list[bytes]], list[bytes]],
    line: int,
    problem: str,
    tmp_path: Path,
    lines: list[bytes],
    verify: Verify,
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(change(lines)))
    code, said = verify(path)
    assert code == 2
    assert said.startswith(f"{path}: line {line}: {problem}")
    assert said.count("\n") == 1


def test_a_line_that_was_edited_and_hashed_anew_breaks_the_link_of_the_next(
    tmp_path: Path, lines: list[bytes], verify: Verify
) -> None:
    other = write_log(tmp_path / "other")
    path = tmp_path / "log"
    path.write_bytes(b"".join([*lines[:2], other[2], *lines[3:]]))
    code, said = verify(path)
    assert code == 2
    assert "line 3: edited: record 3 follows another record 2" in said


def test_a_noted_head_finds_what_was_cut_off_or_rewritten(tmp_path: Path, lines: list[bytes], verify: Verify) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    head = head_of(verify(path)[1])
    path.write_bytes(b"".join(lines[:4]))
    assert verify(path)[0] == 0, "nothing in the file itself can show this"
    code, said = verify(path, "--head", head)
    assert (code, "line 5: truncated: the file ends with record 4, record 6 is missing" in said) == (2, True)
    write_log(path.with_name("rewritten"), count=8)
    code, said = verify(path.with_name("rewritten"), "--head", head)
    assert (code, "line 6: edited: record 6 is not the one that was noted" in said) == (2, True)


def test_a_keyed_log_needs_its_key(tmp_path: Path, lines: list[bytes], verify: Verify) -> None:
    for name in ("key", "other"):
        (tmp_path / name).write_text(name * 20)
    path = tmp_path / "log"
    write_log(path, key_file=tmp_path / "key")
    assert verify(path, "--key-file", tmp_path / "key")[0] == 0
    code, said = verify(path)
    assert (code, "line 1: written with a key, and none was given" in said) == (2, True)
    code, said = verify(path, "--key-file", tmp_path / "other")
    assert (code, "line 1: edited" in said and "another key" in said) == (2, True)
    path.write_bytes(b"".join(lines))
    code, said = verify(path, "--key-file", tmp_path / "key")
    assert (code, "line 1: written without a key" in said) == (2, True)


def test_what_cannot_be_checked_is_one_line_and_exit_code_2(tmp_path: Path, verify: Verify) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, problem in (
        (tmp_path / "missing", "No such file"),
        (tmp_path, "Is a directory"),
        (fifo, "not a regular file"),
    ):
        code, said = verify(path)
        assert (code, said.count("\n")) == (2, 1)
        assert problem in said
    code, said = verify(tmp_path / "missing", "--head", "6")
    assert (code, "a number, a colon and a hash" in said) == (2, True)
    assert verify()[0] == 2
    assert verify("--help")[0] == 0


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_single_change_of_a_byte_passes(
    data: st.DataObject, tmp_path: Path, lines: list[bytes], verify: Verify
) -> None:
    content = b"".join(lines)
    at = data.draw(st.integers(0, len(content) - 1))
    new = data.draw(st.integers(0, 255).filter(lambda value: value != content[at]))
    changed = data.draw(
        st.sampled_from(
            [
                content[:at] + bytes([new]) + content[at + 1 :],
                content[:at] + content[at + 1 :],
                content[:at] + bytes([new]) + content[at:],
            ]
        )
    )
    path = tmp_path / "log"
    path.write_bytes(changed)
    assert verify(path)[0] == 2


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=COUNT))
def test_no_other_choice_or_order_of_lines_passes_but_a_prefix(
    kept: list[int], tmp_path: Path, lines: list[bytes], verify: Verify
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines[number] for number in kept))
    assert verify(path)[0] == (0 if kept == list(range(len(kept))) else 2)
