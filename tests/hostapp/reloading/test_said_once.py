"""What is wrong with a changed config is said once, however often its folder changes beside it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from midspan.config import Config, read_source
from midspan.errors import OperatorError
from midspan.reloading import Changes, Reloader

pytestmark = pytest.mark.anyio

GOOD = b'[servers.a]\nurl = "http://localhost:1/mcp"\n'


class Applied:
    """What a config is applied to; takes any that does not ask for a failure."""

    fails: Exception | None = None

    def prepare(self, config: Config) -> Config:
        if self.fails:
            raise self.fails
        return config

    async def apply(self, prepared: Config, /) -> str:
        return f"{len(prepared.servers)} servers"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The config file."""
    path = tmp_path / "midspan.toml"
    path.write_bytes(GOOD)
    return path


@pytest.fixture
def target() -> Applied:
    return Applied()


@pytest.fixture
def reloader(file: Path, target: Applied) -> Reloader[Config]:
    return Reloader(file, read_source(file), target, Changes())


async def said(reloader: Reloader[Config], caplog: pytest.LogCaptureFixture, *, asked: bool = False) -> list[str]:
    """Look at the config once; return what was logged."""
    caplog.set_level(logging.INFO, "midspan.config")
    caplog.clear()
    await reloader.reload(asked=asked)
    return [record.getMessage() for record in caplog.records]


BAD = [
    pytest.param(b"garbage[\n", "a key is followed by = and its value", id="no TOML"),
    pytest.param(b"\xff\n", "UTF-8", id="no UTF-8"),
    pytest.param(b'include = ["nothing.toml"]\n', "nothing.toml", id="an include that is not there"),
    pytest.param(b"[servers.a]\n", "servers.a", id="no config"),
    pytest.param(b"  \n", "is empty", id="emptied"),
    pytest.param(None, "cannot be read", id="gone"),
]


def put(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)


@pytest.mark.parametrize(("bad", "says"), BAD)
async def test_once_while_the_file_stays_as_it_is(
    bad: bytes | None, says: str, file: Path, reloader: Reloader[Config], caplog: pytest.LogCaptureFixture
) -> None:
    put(file, bad)
    first = await said(reloader, caplog)
    assert says in first[0]
    assert first[-1] == "the changed config is not applied; what was in force stays in force"
    assert await said(reloader, caplog) == []
    assert await said(reloader, caplog) == []


@pytest.mark.parametrize(("bad", "says"), BAD)
async def test_again_when_the_good_file_was_back_in_between(
    bad: bytes | None, says: str, file: Path, reloader: Reloader[Config], caplog: pytest.LogCaptureFixture
) -> None:
    put(file, bad)
    first = await said(reloader, caplog)
    put(file, GOOD)
    assert await said(reloader, caplog) == []
    put(file, bad)
    assert await said(reloader, caplog) == first
    assert says in first[0]


async def test_again_when_somebody_asks(
    file: Path, reloader: Reloader[Config], caplog: pytest.LogCaptureFixture
) -> None:
    put(file, b"garbage[\n")
    first = await said(reloader, caplog)
    assert await said(reloader, caplog, asked=True) == first
    assert await said(reloader, caplog) == []


async def test_again_when_the_file_changed_and_the_same_is_wrong(
    file: Path, reloader: Reloader[Config], caplog: pytest.LogCaptureFixture
) -> None:
    put(file, b"garbage[\n")
    first = await said(reloader, caplog)
    put(file, b"garbage[\n# a try\n")
    assert await said(reloader, caplog) == first


@pytest.mark.parametrize("failure", [OperatorError("a folder is missing"), RuntimeError("a bug")])
async def test_once_when_it_cannot_be_applied(
    failure: Exception, file: Path, target: Applied, reloader: Reloader[Config], caplog: pytest.LogCaptureFixture
) -> None:
    target.fails = failure
    put(file, GOOD + b"# changed\n")
    assert (await said(reloader, caplog))[-1].endswith("what was in force stays in force")
    assert await said(reloader, caplog) == []
    target.fails = None
    assert "the config was read again: 1 servers" in await said(reloader, caplog, asked=True)
