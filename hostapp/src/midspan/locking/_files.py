"""Which files make up an installed distribution, and their hashes.

Two sources, since neither is enough: what its RECORD lists, data files outside of packages included; and what stands
where an import of its packages would lead. The second finds files that were dropped in, editable installs, and a folder
earlier on the import path that shadows the installed one. The hashes in RECORD are never used.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, all_suffixes
from pathlib import Path

from midspan.errors import OperatorError
from midspan.locking._distributions import Distribution
from midspan.locking._finding import find_top_level, find_within

_BYTECODE = "__pycache__"
_OF_INSTALLERS = frozenset(
    {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json", "installed-files.txt"}
)
"""Files of a `.dist-info` that tell how it was installed, not what: they differ from machine to machine."""
_SCRIPTS = frozenset({"bin", "Scripts"})
_SUFFIXES = sorted(all_suffixes(), key=len, reverse=True)
_AT_ONCE = 1024 * 1024
"""Bytes up to which a file is read in one piece."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFile:
    """A file of a distribution.

    Attributes:
        path: where it is.
        shadows: whether an import gets it in the place of the one that the distribution installed.
    """

    path: str
    shadows: bool = False


def files_of(distribution: Distribution, modules: Iterable[str] = ()) -> dict[str, FoundFile]:
    """Find the files of a distribution.

    Args:
        distribution: which.
        modules: modules that it is known to have, such as those of its entry points.

    Returns:
        The files by names that are the same on every machine: paths from the folder of the import path on, with `/`;
        `.dist-info/...` for its metadata. Bytecode in `__pycache__` is none of them, nor are scripts, whose first line
        is the machine's.

    Raises:
        OperatorError: a folder or file cannot be read.
    """
    try:
        return _Search(distribution, modules).files()
    except OSError as error:
        where = f"{distribution.name} {distribution.version}"
        raise OperatorError(f"{where}: {error.filename}: cannot be read: {error.strerror or error}") from error


def packages_in(files: Iterable[str]) -> set[str]:
    """Return the names of the top-level packages and modules among files, by their names."""
    first = (name.split("/") for name in files if not name.startswith("."))
    return {parts[0] if len(parts) > 1 else _stem(parts[0]) or parts[0] for parts in first}


def hash_of(path: str) -> str:
    """Return `sha256:<hex>` of a file.

    Raises:
        OperatorError: it cannot be read.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > _AT_ONCE:
                digest = hashlib.file_digest(file, "sha256")  # pyright: ignore[reportArgumentType] - a raw file is one
            else:
                digest = hashlib.sha256(file.readall())
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read: {error.strerror or error}") from error
    return f"sha256:{digest.hexdigest()}"


def hash_of_all(hashes: Mapping[str, str]) -> str:
    """Return `sha256:<hex>` of files by their names and hashes."""
    text = "".join(f"{name}\0{digest}\n" for name, digest in sorted(hashes.items()))
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}"


@dataclass(slots=True)
class _Names:
    """Module names that a distribution has, as a tree."""

    children: dict[str, _Names] = field(default_factory=dict[str, "_Names"])

    def add(self, parts: Iterable[str]) -> None:
        node = self
        for part in parts:
            if not part.isidentifier():
                return
            node = node.children.setdefault(part, _Names())


class _Search:
    def __init__(self, distribution: Distribution, modules: Iterable[str]) -> None:
        self._distribution = distribution
        self._modules = tuple(modules)
        self._root = str(distribution.root)
        self._found: dict[str, FoundFile] = {}

    def files(self) -> dict[str, FoundFile]:
        names = _Names()
        self._add_metadata()
        for path in self._distribution.recorded():
            self._add_recorded(posixpath.normpath(path.replace("\\", "/")), names)
        for module in (*self._distribution.top_level(), *self._modules):
            names.add(module.split("."))
        if not names.children:
            # An editable install of a package with the distribution's name.
            names.add([self._distribution.name.replace("-", "_")])
        self._add_importable(names, (), None)
        return self._found

    def _add(self, name: str, path: str) -> None:
        other = self._found.get(name)
        self._found[name] = FoundFile(path=path)
        if other is not None:
            self._note_shadow(name, other)

    def _note_shadow(self, name: str, other: FoundFile) -> None:
        path = self._found[name].path
        if other.path != path and not _same(other.path, path):
            self._found[name] = FoundFile(path=path, shadows=True)

    def _add_metadata(self) -> None:
        info = self._distribution.info
        kind = f".{info.name.rpartition('.')[2]}"
        if not info.is_dir():
            return self._add(kind, str(info))
        return self._add_folder(kind, str(info), leaving_out=_OF_INSTALLERS)

    def _add_recorded(self, path: str, names: _Names) -> None:
        parts = path.split("/")
        if _BYTECODE in parts or parts[0] == self._distribution.info.name:
            return
        full = os.path.join(self._root, *parts) if not posixpath.isabs(path) else path
        if parts[0] == "..":
            outside = [part for part in parts if part != ".."]
            if outside and outside[0] not in _SCRIPTS and os.path.isfile(full):
                self._add("/".join(("..", *outside)), full)
            return
        if not os.path.isfile(full) or (len(parts) == 1 and path.endswith(".pth") and not _runs_code(full)):
            return
        self._add(path.lstrip("/"), full)
        *folders, file = parts
        if stem := _stem(file):
            names.add(folders if stem == "__init__" else (*folders, stem))

    def _add_importable(self, names: _Names, parents: tuple[str, ...], search: list[str] | None) -> None:
        for name, inner in names.children.items():
            parts = (*parents, name)
            spec = find_top_level(name) if search is None else find_within(name, search)
            if spec is None:
                continue
            locations = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
            if locations is None:
                self._add_module(spec, parents)
            elif inner.children and not spec.has_location:
                # A namespace, which others have parts of too.
                self._add_importable(inner, parts, locations)
            else:
                self._add_package("/".join(parts), locations)

    def _add_module(self, spec: ModuleSpec, parents: tuple[str, ...]) -> None:
        if spec.origin is None or not os.path.isfile(spec.origin):
            raise self._unlockable(spec.name, spec.origin)
        self._add("/".join((*parents, os.path.basename(spec.origin))), spec.origin)

    def _add_package(self, name: str, folders: Sequence[str]) -> None:
        recorded = {file for file in self._found if file.startswith(f"{name}/")}
        installed = {file: self._found.pop(file) for file in recorded}
        for folder in folders:
            if not os.path.isdir(folder):
                raise self._unlockable(name.replace("/", "."), folder)
            self._add_folder(name, folder)
        # What the distribution installed elsewhere, an import would not get: it is as if it were not there.
        for file, other in installed.items():
            if file in self._found:
                self._note_shadow(file, other)

    def _unlockable(self, module: str, place: str | None) -> OperatorError:
        # An archive, say. Whatever it holds would run without having been looked at.
        where = f"{self._distribution.name} {self._distribution.version}"
        return OperatorError(
            f"{where}: an import of {module} leads to {place or 'no file'}, which cannot be locked; "
            "take it off the import path"
        )

    def _add_folder(self, name: str, folder: str, *, leaving_out: frozenset[str] = frozenset()) -> None:
        self._walk(name, folder, (os.path.realpath(folder),), leaving_out)

    def _walk(self, name: str, folder: str, above: tuple[str, ...], leaving_out: frozenset[str] = frozenset()) -> None:
        """Add all files below a folder. Links are followed, as an import follows them; `above` stops at their loops."""
        with os.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            if entry.name == _BYTECODE or entry.name in leaving_out:
                continue
            if entry.is_file():
                self._add(f"{name}/{entry.name}", entry.path)
            elif entry.is_dir():
                real = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(above[-1], entry.name)
                if real not in above:
                    self._walk(f"{name}/{entry.name}", entry.path, (*above, real))


def _stem(file: str) -> str | None:
    return next((file[: -len(suffix)] for suffix in _SUFFIXES if file.endswith(suffix)), None)


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _runs_code(pth: str) -> bool:
    """Tell whether a `.pth` file does more than to name folders, which are the machine's.

    What such folders lead to is found by the search for the packages.
    """
    lines = Path(pth).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return any(line.startswith(("import ", "import\t")) for line in lines)
