"""Published servers: how each is started, on what, and what is asked of it."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Arguments = Mapping[str, Any]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EVERYWHERE: Sequence[tuple[str, Arguments]] = [("no-such-tool", {"a": 1})]
"""Calls that fail on every server."""


@dataclass(frozen=True, kw_only=True)
class RealServer:
    """A published server.

    Attributes:
        name: its command.
        source: where it is published.
        calls: tools and arguments; one after the other, since some change what later ones see. The text `{folder}`
            in an argument stands for the server's folder.
        arguments: of the command line.
        environment: on top of the usual one.
        prepare: fills the folder, which is empty.
    """

    name: str
    source: Literal["npm", "pypi"]
    calls: Sequence[tuple[str, Arguments]]
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    prepare: Callable[[Path], None] = lambda folder: None

    def start_over(self, folder: Path) -> None:
        """Make the folder what it is before the first call."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self.prepare(folder)


def filled(value: Any, folder: Path) -> Any:
    """Return a value with `{folder}` in its texts replaced."""
    if isinstance(value, str):
        return value.replace("{folder}", str(folder))
    if isinstance(value, Mapping):
        return {key: filled(part, folder) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Sequence):
        return [filled(part, folder) for part in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _some_files(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "a.txt").write_text("first\nsecond ü\nthird\n")
    (folder / "sub" / "b.md").write_text("# Title\n")
    (folder / "pixel.png").write_bytes(PIXEL)


GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in {
            "NAME": "A Tester",
            "EMAIL": "tester@example.org",
            "DATE": "2026-01-02T03:04:05+00:00",
        }.items()
    },
}


def _repository(folder: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=folder, env={**os.environ, **GIT}, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    (folder / "a.txt").write_text("first\n")
    git("add", ".")
    git("commit", "--message=first commit")
    (folder / "a.txt").write_text("first\nsecond ü\n")


SERVERS = [
    RealServer(
        name="mcp-server-time",
        source="pypi",
        arguments=["--local-timezone", "Europe/Berlin"],
        calls=[
            ("convert_time", {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
            ("convert_time", {"source_timezone": "Europe/Berlin", "time": "25:00", "target_timezone": "Asia/Tokyo"}),
            ("convert_time", {"time": "12:00"}),
            ("get_current_time", {"timezone": "Nowhere/None"}),
        ],
    ),
    RealServer(
        name="mcp-server-git",
        source="pypi",
        arguments=["--repository", "{folder}"],
        environment=GIT,
        prepare=_repository,
        calls=[
            ("git_status", {"repo_path": "{folder}"}),
            ("git_diff_unstaged", {"repo_path": "{folder}"}),
            ("git_add", {"repo_path": "{folder}", "files": ["a.txt"]}),
            ("git_commit", {"repo_path": "{folder}", "message": "second commit, ü"}),
            ("git_log", {"repo_path": "{folder}", "max_count": 2}),
            ("git_show", {"repo_path": "{folder}", "revision": "HEAD"}),
            ("git_show", {"repo_path": "{folder}", "revision": "no-such-revision"}),
            ("git_create_branch", {"repo_path": "{folder}", "branch_name": "other"}),
            ("git_branch", {"repo_path": "{folder}", "branch_type": "local"}),
            ("git_status", {"repo_path": "{folder}/none"}),
            ("git_status", {}),
        ],
    ),
    RealServer(
        name="mcp-server-filesystem",
        source="npm",
        arguments=["{folder}"],
        prepare=_some_files,
        calls=[
            ("list_allowed_directories", {}),
            ("directory_tree", {"path": "{folder}"}),
            ("read_text_file", {"path": "{folder}/a.txt", "head": 2}),
            ("read_media_file", {"path": "{folder}/pixel.png"}),
            ("read_multiple_files", {"paths": ["{folder}/a.txt", "{folder}/none", "{folder}/sub/b.md"]}),
            ("write_file", {"path": "{folder}/new.txt", "content": "α\r\nβ\u2028γ\n"}),
            ("edit_file", {"path": "{folder}/a.txt", "edits": [{"oldText": "first", "newText": "1st"}]}),
            ("search_files", {"path": "{folder}", "pattern": "**/*.md"}),
            ("read_text_file", {"path": "{folder}/../../outside"}),
            ("read_text_file", {"path": 7}),
        ],
    ),
    RealServer(
        name="mcp-server-memory",
        source="npm",
        environment={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
        calls=[
            (
                "create_entities",
                {
                    "entities": [
                        {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]},
                        {"name": "Engine", "entityType": "machine", "observations": []},
                    ]
                },
            ),
            ("create_relations", {"relations": [{"from": "Ada", "to": "Engine", "relationType": "programs"}]}),
            ("add_observations", {"observations": [{"entityName": "Ada", "contents": ["ü", "ü"]}]}),
            ("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["x"]}]}),
            ("read_graph", {}),
            ("search_nodes", {"query": "program"}),
            ("open_nodes", {"names": "not a list"}),
        ],
    ),
]
