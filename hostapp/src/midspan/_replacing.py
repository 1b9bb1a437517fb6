"""Writing a file so that neither a crash nor another writer leaves half of it."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

PRIVATE, PUBLIC = 0o600, 0o644
_PRIVATE_FOLDER = 0o700


def replace_file(target: Path, before: bytes | None, after: bytes, *, mode: int = PRIVATE) -> None:
    """Put new content in the place of a file at once: whoever reads it meanwhile has the old or the new one.

    Args:
        target: the file itself, no link to it. Folders made for it are for its owner alone; a file that is there
            keeps its mode and owner.
        before: its content as it was read; None when it is not there.
        after: its content from now on.
        mode: of a new file.

    Raises:
        OSError: it cannot be done; the file is as it was.
    """
    old = None if before is None else target.stat()
    if old is None:
        target.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    elif not os.access(target, os.W_OK) or not old.st_mode & 0o222:
        # Replacing it needs no right to write into it; whoever took that right away meant something by it.
        raise PermissionError(None, "it is read-only")
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        new = os.stat(name)
        if old is not None and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.chown(name, old.st_uid, old.st_gid)
        os.chmod(name, mode if old is None else stat.S_IMODE(old.st_mode))
        if content_of(target) != before:
            raise OSError(None, "it was changed meanwhile; try again")
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def content_of(target: Path) -> bytes | None:
    """Return what a file holds, None when it is not there: what `replace_file` takes as `before`.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return target.read_bytes()
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        # Some file systems cannot; the content itself is on the disk.
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
