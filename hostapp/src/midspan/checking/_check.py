"""All findings, of everything that would run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from midspan.checking._deadlines import declared_in_vain
from midspan.checking._finding import Finding, Severity
from midspan.checking._servers import unusable_servers
from midspan.checking._tables import undecided_tables, unknown_loggers
from midspan.config import in_scope
from midspan.errors import OperatorError, each_of
from midspan.plugins import Builder
from midspan.sight import ServerGroup, groups_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What a check came to.

    Attributes:
        findings: what is wrong, in the order of the operator's files; what has no place there comes last.
        plugins: how many plugin instances can run.
        interceptors: how many interceptors they have.
        servers: in front of which servers there is a chain.
    """

    findings: tuple[Finding, ...]
    plugins: int
    interceptors: int
    servers: tuple[str, ...]


def check(builder: Builder, server: str | None = None) -> Checked:
    """Load, configure and chain everything, start nothing, and find all that is wrong.

    Args:
        builder: builds the chains.
        server: look at this server only.
    """
    config = builder.config
    groups = groups_of(builder, server)
    files = [file.path for file in config.source.files]
    findings = _sorted(_distinct([*_of_chains(builder, groups), *_of_config(builder, server)]), files)
    instances = {one.name: one for group in groups if group.assembly for one in group.assembly.instances}
    return Checked(
        findings=findings,
        plugins=len(instances),
        interceptors=sum(len(one.interceptors) for one in instances.values()),
        servers=tuple(name for group in groups if group.assembly for name in group.names),
    )


def unread(error: OperatorError) -> Checked:
    """Return what a check came to that ended at a config that cannot be read, or at a plugin file that is none."""
    found = [Finding.of(each, "error", None) for each in each_of(error)]
    files = [one.place.file for one in found if one.place is not None and one.place.file is not None]
    return Checked(findings=_sorted(found, list(dict.fromkeys(files))), plugins=0, interceptors=0, servers=())


def _of_chains(builder: Builder, groups: Iterable[ServerGroup]) -> Iterator[Finding]:
    config = builder.config
    for group in groups:
        for problem in group.problems:
            yield Finding.of(problem, "error", config, group.names)
        for note in group.notes:
            if note.message not in builder.selection.warnings:  # told with their places by `undecided_tables`
                yield Finding.of(note, "warning", config)


def _of_config(builder: Builder, server: str | None) -> Iterator[Finding]:
    config, running = builder.config, builder.instance_names
    yield from _of_instances(builder, server)
    servers = [name for name in config.servers if server in (None, name)]
    found: list[tuple[Severity, Iterable[OperatorError]]] = [
        ("error", builder.selection.problems),
        ("error", unusable_servers(config, servers)),
        ("warning", undecided_tables(config, running, builder.blocked)),
        ("warning", unknown_loggers(config, [info.id for info in builder.selection.plugins])),
    ]
    for severity, problems in found:
        for problem in problems:
            yield Finding.of(problem, severity, config)


def _of_instances(builder: Builder, server: str | None) -> Iterator[Finding]:
    """Yield what is wrong with instances that are to run, in front of whichever server."""
    config = builder.config
    for refused in builder.selection.refused:
        if server is None or in_scope(server, refused.servers):
            yield Finding.of(refused.problem, "error", config)
    for chosen in builder.selection.instances:
        if server is not None and not in_scope(server, chosen.servers):
            continue
        try:
            for note in declared_in_vain(builder.instance(chosen)):
                yield Finding.of(note, "warning", config)
        except OperatorError as error:
            for each in each_of(error):
                yield Finding.of(each, "error", config)


def _distinct(findings: Iterable[Finding]) -> list[Finding]:
    """Tell each finding once, with all servers that it stops."""
    merged: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.where, finding.problem)
        known = merged.get(key)
        if known is None:
            merged[key] = finding
        else:
            merged[key] = replace(known, servers=tuple(dict.fromkeys((*known.servers, *finding.servers))))
    return list(merged.values())


def _sorted(findings: list[Finding], files: list[Path]) -> tuple[Finding, ...]:

    def order(finding: Finding) -> tuple[int, int, int]:
        place = finding.place
        if place is None or place.file not in files:
            return len(files), 0, 0
        return files.index(place.file), place.line or 0, place.column or 0

    return tuple(sorted(findings, key=order))
