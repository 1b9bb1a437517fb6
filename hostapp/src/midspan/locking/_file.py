"""The lock file: JSON with sorted keys, a line for each file's hash, the same bytes for the same environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from midspan._replacing import PUBLIC, content_of, replace_file
from midspan.config import ConfigSource, user_config
from midspan.errors import OperatorError
from midspan.locking._lock import Lock

VERSION = 1
SUFFIX = ".lock"
ABOUT = (
    "Written by `midspan plugins lock`, not by hand: what the guards consist of and in which order they run. "
    "With --locked midspan starts only when all of it is as it says here. Keep it in version control."
)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Plugin(_Model):
    distribution: str | None = None
    version: str | None = None
    entry_point: str | None = None
    file: str | None = None
    hash: str | None = None


class _Distribution(_Model):
    version: str
    hash: str | None = None
    files: dict[str, str] | None = None


class _Chain(_Model):
    entries: list[dict[str, Any]]
    observers: list[dict[str, Any]]
    mutators: dict[str, list[str]]


class _File(_Model):
    about: str
    version: int
    environment: str
    plugins: dict[str, _Plugin]
    distributions: dict[str, _Distribution]
    chains: dict[str, _Chain] = Field(default_factory=dict[str, _Chain])


def lock_path(source: ConfigSource) -> Path:
    """Return where the lock of a config is: beside it, by its name, `midspan.lock` for `midspan.toml`.

    Without a config it is in the user's config folder.

    Raises:
        OperatorError: there is neither a config nor a config folder.
    """
    config = source.path if source.path is not None else user_config()
    if config is None:
        raise OperatorError(
            "there is no folder for midspan.lock: you have no config folder; name a config with --config"
        )
    return config.with_name(config.name.removesuffix(".toml") + SUFFIX)


def read_lock(path: Path) -> Lock:
    """Read a lock.

    Raises:
        OperatorError: it is not there, cannot be read, is damaged, or was written by a newer midspan.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise OperatorError(f"{path}: there is no lock; write it with `midspan plugins lock`") from None
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _damaged(path, "it is not UTF-8 text") from error
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise _damaged(path, f"line {error.lineno}: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    version = cast("dict[str, Any]", data).get("version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise OperatorError(
            f"{path}: is of version {version}, written by a newer midspan; this one reads version {VERSION}: "
            "update midspan, or write the lock anew with `midspan plugins lock`"
        )
    try:
        file = _File.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _damaged(path, f"{where}: {first['msg']}" if where else first["msg"]) from error
    if file.version != VERSION:
        raise _damaged(path, f"version: {file.version} is none")
    return Lock(
        environment=file.environment,
        plugins={name: _given(plugin) for name, plugin in file.plugins.items()},
        distributions={name: _given(one) for name, one in file.distributions.items()},
        chains={name: chain.model_dump() for name, chain in file.chains.items()},
    )


def write_lock(lock: Lock, path: Path) -> bool:
    """Write a lock, at once or not at all.

    Returns:
        Whether the file changed.

    Raises:
        OperatorError: it cannot be written.
    """
    after = text_of(lock).encode()
    try:
        target = path.resolve()
        before = content_of(target)
        if before == after:
            return False
        # It holds no secrets and is read by whoever runs the gateway.
        replace_file(target, before, after, mode=PUBLIC)
    except OSError as error:
        raise OperatorError(f"{path}: cannot be written: {error.strerror or error}") from error
    return True


def text_of(lock: Lock) -> str:
    """Return a lock as it stands in its file."""
    data = {
        "about": ABOUT,
        "version": VERSION,
        "environment": lock.environment,
        "plugins": lock.plugins,
        "distributions": lock.distributions,
        "chains": lock.chains,
    }
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, default=dict) + "\n"


def _given(model: BaseModel) -> Mapping[str, Any]:
    return model.model_dump(exclude_none=True)


def _damaged(path: Path, problem: str) -> OperatorError:
    return OperatorError(f"{path}: is damaged: {problem}; restore it, or write it anew with `midspan plugins lock`")
