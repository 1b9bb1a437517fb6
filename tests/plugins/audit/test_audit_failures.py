"""What happens when the log cannot be opened, written or trusted."""

# ruff: noqa: ASYNC240 - blocking on small local files is what these tests mean to do

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

import midspan_audit
from midspan_audit import AuditConfig, AuditLogError
from midspan_sdk import Chain, ChainExecutionResult

pytestmark = pytest.mark.anyio

Audited = Callable[..., AbstractAsyncContextManager[Chain]]
ReadRecords = Callable[[Path], list[dict[str, Any]]]
Verify = Callable[..., tuple[int, str]]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    (command,) = midspan_audit.midspan_commands()

    def run(*arguments: str | Path) -> tuple[int, str]:
        code = command.run([str(argument) for argument in arguments])
        return code, "".join(capsys.readouterr())

    return run


async def call(chain: Chain) -> ChainExecutionResult:
    with anyio.fail_after(10):
        return await chain.execute(event="tools/call", phase="request", payload={"name": "ls"})


def assert_blocked(result: ChainExecutionResult) -> None:
    assert result.final_payload is None
    assert result.aborted_at is not None
    assert (result.aborted_at.interceptor, result.aborted_at.type) == ("audit", "observer")


# At start


async def test_directories_and_file_are_created_for_their_owner_only(audited: Audited, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "audit.jsonl"
    before = os.umask(0)
    try:
        async with audited(path):
            pass
    finally:
        os.umask(before)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path.parent.parent, path.parent, path)] == [
        0o700,
        0o700,
        0o600,
    ]


async def refused(path: Path, **options: Any) -> str:
    with pytest.raises(AuditLogError) as caught, anyio.fail_after(5):
        async with midspan_audit.midspan_lifespan(AuditConfig(path=path, **options), "audit"):
            pytest.fail("the start went on")
    assert caught.value.path in (path, options.get("key_file"))
    assert "\n" not in str(caught.value)
    return caught.value.problem


async def test_a_path_that_cannot_be_a_log_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "Is a directory" in await refused(tmp_path)
    assert "Not a directory" in await refused(file / "audit.jsonl")
    assert "not a regular file" in await refused(fifo)
    assert "not a regular file" in await refused(Path("/dev/full"))


@pytest.mark.parametrize("content", [b"export PATH=x\n", b"no line end", b'{"v":1}\n', b"\0" * 500, b"x" * 3_000_000])
async def test_a_file_that_is_no_audit_log_stops_the_start_and_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / ".bashrc"
    path.write_bytes(content)
    assert "not a record of this log" in await refused(path)
    assert path.read_bytes() == content


async def test_a_missing_or_short_key_stops_the_start(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    assert "No such file" in await refused(tmp_path / "log", key_file=key_file)
    key_file.write_text("short\n")
    assert "32" in await refused(tmp_path / "log", key_file=key_file)
    assert not (tmp_path / "log").exists()


async def test_another_key_than_before_stops_the_start(audited: Audited, tmp_path: Path, log_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name * 20)
    async with audited(log_path, key_file=tmp_path / "one") as chain:
        await call(chain)
    assert "another key" in await refused(log_path, key_file=tmp_path / "two")
    assert "none was given" in await refused(log_path)


async def test_a_lock_that_is_never_released_stops_the_start(log_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midspan_audit._writer.OPEN_SECONDS", 0.1)
    log_path.parent.mkdir()
    with log_path.open("wb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert "cannot be locked" in await refused(log_path)


async def test_without_its_lifespan_the_observer_blocks(tmp_path: Path) -> None:
    config = AuditConfig(path=tmp_path / "audit.jsonl")
    chain = Chain(observers=midspan_audit.midspan_observers(config, "audit"))
    assert_blocked(await call(chain))
    assert not config.path.exists()


# While traffic flows


async def test_a_full_disk_blocks_the_message_and_leaves_no_half_line(
    audited: Audited,
    log_path: Path,
    read_records: ReadRecords,
    verify: Verify,
    file_size_limit: Callable[[int], AbstractContextManager[None]],
) -> None:
    async with audited(log_path) as chain:
        assert (await call(chain)).status == "success"
        size = log_path.stat().st_size
        with file_size_limit(size + 100):
            for _ in range(2):
                assert_blocked(await call(chain))
                assert log_path.stat().st_size == size
        assert (await call(chain)).status == "success"
        assert (await call(chain)).status == "success"
    assert [record.get("gap") for record in read_records(log_path)] == [None, 2, None]
    assert verify(log_path)[0] == 0


async def test_with_fsync_a_disk_that_does_not_take_the_record_blocks_the_message(
    audited: Audited, log_path: Path, read_records: ReadRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def failing(descriptor: int) -> None:
        synced.append(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with audited(log_path) as chain, audited(log_path, fsync=True) as syncing:
        # No disk can be made to fail on demand, so this is the one place where the system call is replaced.
        monkeypatch.setattr(os, "fsync", failing)
        assert (await call(chain)).status == "success"
        assert synced == []
        assert_blocked(await call(syncing))
        assert len(synced) == 1
        monkeypatch.undo()
        assert (await call(syncing)).status == "success"
    assert [record.get("gap") for record in read_records(log_path)] == [None, None, 1]


async def test_a_directory_in_the_place_of_the_file_blocks_until_it_is_gone(
    audited: Audited, log_path: Path, read_records: ReadRecords, verify: Verify
) -> None:
    moved = log_path.with_name("moved.jsonl")
    async with audited(log_path) as chain:
        await call(chain)
        log_path.rename(moved)
        log_path.mkdir()
        assert_blocked(await call(chain))
        log_path.rmdir()
        assert (await call(chain)).status == "success"
    assert [record["seq"] for record in read_records(moved)] == [1]
    assert [(record["seq"], record["gap"]) for record in read_records(log_path)] == [(1, 1)]
    assert verify(log_path)[0] == verify(moved)[0] == 0


async def test_a_file_that_was_moved_or_removed_is_begun_anew(
    audited: Audited, log_path: Path, read_records: ReadRecords
) -> None:
    async with audited(log_path) as chain:
        await call(chain)
        log_path.unlink()
        result = await call(chain)
        assert [record["decision_id"] for record in read_records(log_path)] == [result.decision_id]


@pytest.mark.parametrize("left", [0, 50])
async def test_a_file_cut_while_it_is_open_goes_on_with_a_break_that_verify_finds(
    left: int, audited: Audited, log_path: Path, read_records: ReadRecords, verify: Verify
) -> None:
    async with audited(log_path) as chain:
        for _ in range(3):
            await call(chain)
        os.truncate(log_path, left)
        await call(chain)
        await call(chain)
    assert [record["seq"] for record in read_records(log_path)] == [4, 5]
    code, said = verify(log_path)
    assert code == 2
    assert "line 1: removed: records 1 to 3 are missing" in said


async def test_something_else_written_into_the_log_blocks(audited: Audited, log_path: Path) -> None:
    async with audited(log_path) as chain:
        await call(chain)
        with log_path.open("a") as file:
            file.write("a line of somebody else\n")
        assert_blocked(await call(chain))
        log_path.unlink()
        assert (await call(chain)).status == "success"


async def test_what_a_killed_writer_left_of_a_line_is_cut_off_and_counted(
    audited: Audited, log_path: Path, read_records: ReadRecords, verify: Verify
) -> None:
    async with audited(log_path) as chain:
        await call(chain)
        await call(chain)
    first, second = log_path.read_bytes().splitlines(keepends=True)
    log_path.write_bytes(first + second[:100])
    code, said = verify(log_path)
    assert (code, "line 2: truncated" in said) == (2, True)
    async with audited(log_path) as chain:
        await call(chain)
    assert [record.get("torn") for record in read_records(log_path)] == [None, 100]
    assert verify(log_path)[0] == 0


async def test_a_record_that_only_lacks_its_line_end_is_kept(
    audited: Audited, log_path: Path, read_records: ReadRecords, verify: Verify
) -> None:
    async with audited(log_path) as chain:
        await call(chain)
    log_path.write_bytes(log_path.read_bytes().rstrip(b"\n"))
    async with audited(log_path) as chain:
        await call(chain)
    assert [(record["seq"], record.get("torn")) for record in read_records(log_path)] == [(1, None), (2, None)]
    assert verify(log_path)[0] == 0


async def test_waiting_for_a_held_lock_can_be_given_up(
    audited: Audited, log_path: Path, read_records: ReadRecords
) -> None:
    async with audited(log_path) as chain:
        with log_path.open("rb") as holder:
            fcntl.flock(holder, fcntl.LOCK_EX)
            for _ in range(2):
                with anyio.move_on_after(0.05) as scope:
                    await call(chain)
                assert scope.cancelled_caught
        assert (await call(chain)).status == "success"
    assert [record.get("gap") for record in read_records(log_path)] == [2]


async def test_what_is_not_durable_lets_messages_pass_and_counts_the_gap(
    audited: Audited,
    log_path: Path,
    read_records: ReadRecords,
    file_size_limit: Callable[[int], AbstractContextManager[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with audited(log_path, durable=False) as chain:
        with file_size_limit(10):
            for _ in range(3):
                assert (await call(chain)).status == "success"
            with anyio.fail_after(5):
                while chain.failed["audit"] < 3:
                    await anyio.lowlevel.checkpoint()
        await call(chain)
    assert [record["gap"] for record in read_records(log_path)] == [3]
    assert "cannot be written: File too large" in caplog.text


async def test_a_gap_at_the_end_is_logged(
    audited: Audited,
    log_path: Path,
    file_size_limit: Callable[[int], AbstractContextManager[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with file_size_limit(10):
        async with audited(log_path) as chain:
            assert_blocked(await call(chain))
    assert "not recorded at the end: 1" in caplog.text


# Reload


async def test_a_reload_with_another_config_keeps_both_builds_writing_to_one_chain(
    log_path: Path, read_records: ReadRecords, verify: Verify
) -> None:
    old, new = AuditConfig(path=log_path), AuditConfig(path=log_path, fsync=True)
    before = Chain(observers=midspan_audit.midspan_observers(old, "audit"))
    after = Chain(observers=midspan_audit.midspan_observers(new, "audit"))
    async with midspan_audit.midspan_lifespan(new, "audit"):
        async with midspan_audit.midspan_lifespan(old, "audit"):
            for chain in (before, after, before, before, after):
                assert (await call(chain)).status == "success"
        assert (await call(after)).status == "success"
        assert_blocked(await call(before))
    assert len(read_records(log_path)) == 6
    assert verify(log_path)[0] == 0


async def test_a_new_build_over_the_same_config_finds_the_open_log(log_path: Path, read_records: ReadRecords) -> None:
    async with midspan_audit.midspan_lifespan(AuditConfig(path=log_path), "audit"):
        for _ in range(2):
            observers = midspan_audit.midspan_observers(AuditConfig(path=log_path), "audit")
            assert (await call(Chain(observers=observers))).status == "success"
    assert len(read_records(log_path)) == 2
