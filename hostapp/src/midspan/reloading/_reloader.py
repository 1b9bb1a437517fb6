"""Applies a changed config to what runs."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import anyio
import anyio.to_thread

from midspan.config import Config, ConfigSource, read_source, validated
from midspan.errors import ConfigError, OperatorError, each_of
from midspan.reloading._changes import Changes

logger = logging.getLogger("midspan.config")

_PAUSE: Final = 0.05
"""Seconds between two looks at files that may still be written."""
_ATTEMPTS: Final = 20


P = TypeVar("P")


class Target(Protocol[P]):
    """What a config is applied to."""

    def prepare(self, config: Config) -> P:
        """Build and check what the config says, aside. Runs in a worker thread.

        Raises:
            OperatorError: it cannot be used.
        """
        ...

    async def apply(self, prepared: P, /) -> str:
        """Put what was prepared in force. Return what changed, in words.

        Raises:
            OperatorError: it cannot be used after all; nothing has changed then.
        """
        ...


class Reloader(Generic[P]):
    """Reads a config again when it changes, and applies it when it is good.

    Args:
        path: the file.
        source: what was read at the start.
        target: what to apply it to.
        changes: tell when to look.
    """

    def __init__(self, path: Path, source: ConfigSource, target: Target[P], changes: Changes) -> None:
        self._path = path
        self._source = source
        self._target = target
        self._changes = changes
        self._refused: object = None

    async def run(self) -> None:
        """Watch and apply, until cancelled."""
        await self._changes.watch(_watched(self._source))
        while True:
            asked = await self._changes.next()
            await self.reload(asked=asked)

    async def reload(self, *, asked: bool) -> bool:
        """Read the config, and apply it when it has changed.

        Args:
            asked: somebody asked for it: apply it also when the files are as they were, since what they refer to, such
                as a file with a secret, may have changed.

        Returns:
            Whether a config was applied.
        """
        texts: list[tuple[Path, str]] | None = None
        try:
            source = read_source(self._path) if asked else await self._settled()
            texts = _texts(source)
            if not asked:
                if texts == self._refused:
                    return False
                if texts == _texts(self._source):
                    self._refused = None
                    return False
                _refuse_emptied(source, self._source)
            prepared = await anyio.to_thread.run_sync(lambda: self._target.prepare(validated(source)))
            said = await self._target.apply(prepared)
        except OperatorError as error:
            if self._is_news(texts or _unread(error), asked=asked):
                for problem in each_of(error):
                    logger.error("%s", problem.message)
                logger.error("the changed config is not applied; what was in force stays in force")
            return False
        except Exception as error:
            if self._is_news(texts or repr(error), asked=asked):
                logger.exception("the changed config could not be applied; what was in force stays in force")
            return False
        self._source, self._refused = source, None
        await self._changes.watch(_watched(source))
        logger.info("the config was read again: %s", said)
        return True

    def _is_news(self, refused: object, *, asked: bool) -> bool:
        # Whatever happens in the folders of the files brings one here again; also that a log grows there, which these
        # very lines may go into.
        before, self._refused = self._refused, refused
        return asked or refused != before

    async def _settled(self) -> ConfigSource:
        """Read the files when nobody writes them any more: whoever writes in place empties one first.

        Raises:
            ConfigError: they cannot be read.
        """
        last: object = None
        for attempt in range(_ATTEMPTS):
            try:
                source = read_source(self._path)
            except ConfigError as error:
                seen: object = error.message
                if seen == last or attempt == _ATTEMPTS - 1:
                    raise
            else:
                seen = _texts(source)
                if (seen == last and not _emptied(source, self._source)) or attempt == _ATTEMPTS - 1:
                    return source
            last = seen
            await anyio.sleep(_PAUSE)
        raise AssertionError("unreachable")


def _texts(source: ConfigSource) -> list[tuple[Path, str]]:
    return [(file.path, file.text) for file in source.files]


def _unread(error: OperatorError) -> tuple[str, bytes | None]:
    """Return what tells one state of files that cannot be read from another."""
    content = None
    if isinstance(error, ConfigError) and error.file is not None:
        with contextlib.suppress(OSError):
            content = error.file.read_bytes()
    return error.message, content


def _watched(source: ConfigSource) -> list[Path]:
    return [*(file.path for file in source.files), *source.patterns]


def _emptied(source: ConfigSource, before: ConfigSource) -> Path | None:
    """Return a file that held something before and holds nothing now."""
    held = {file.path: file.text.strip() for file in before.files}
    return next((file.path for file in source.files if not file.text.strip() and held.get(file.path)), None)


def _refuse_emptied(source: ConfigSource, before: ConfigSource) -> None:
    # Taken at its word, a file that somebody has only begun to write would switch every guard off.
    if (path := _emptied(source, before)) is not None:
        raise ConfigError("is empty; to apply it nevertheless, send SIGHUP", file=path)
