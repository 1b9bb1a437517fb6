"""Whether a distribution admits the installed midspan-sdk, from its metadata.

The SDK's version is the version of the plugin API. The plain form `midspan-sdk>=0.1,<0.2` is compared here, since the
command line reads it without importing more than the standard library; any other form is for `packaging`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SDK = "midspan-sdk"

_NAME = re.compile(r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_PLAIN = re.compile(r"\s*(?:\[[^\]]*\])?\s*\(?(?P<bounds>[^()\[\];@]*)\)?\s*")
_BOUND = re.compile(r"\s*(?P<operator>>=|<)\s*(?P<release>\d+(?:\.\d+)*)\s*")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")


def canonical(name: str) -> str:
    """Return the normal form of a distribution's name (PyPA, name normalization)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def incompatibility(requirements: Iterable[str], sdk_version: str | None) -> str | None:
    """Say why a distribution does not admit the SDK.

    Args:
        requirements: its `Requires-Dist` lines. Those that an extra or another environment marker switches off do not
            count; all that remain must admit the SDK.
        sdk_version: the installed version, or None when it is not known.

    Returns:
        The reason, or None when the SDK is admitted.
    """
    for requirement in requirements:
        name = _NAME.match(requirement)
        if name is None or canonical(name["name"]) != SDK:
            continue
        if sdk_version is None:
            return f"requires {requirement.strip()}; the version of the installed {SDK} is not known"
        if reason := _refusal(requirement.strip(), requirement[name.end() :], sdk_version):
            return reason
    return None


def _refusal(requirement: str, rest: str, version: str) -> str | None:
    admitted = _plainly_admits(rest, version)
    if admitted is None:
        admitted = _admits(requirement, version)
    if admitted is None:
        return f"its requirement {requirement!r} cannot be read"
    return None if admitted else f"requires {requirement}; {SDK} {version} is installed"


def _plainly_admits(rest: str, version: str) -> bool | None:
    """Decide the plain form; None when the requirement or the version is of another."""
    plain = _PLAIN.fullmatch(rest)
    if plain is None or not _RELEASE.fullmatch(version):
        return None
    if not plain["bounds"].strip():
        return True
    bounds = [_BOUND.fullmatch(bound) for bound in plain["bounds"].split(",")]
    if not all(bounds):
        return None
    installed = _release(version)
    return all(
        installed >= _release(bound["release"]) if bound["operator"] == ">=" else installed < _release(bound["release"])
        for bound in bounds
        if bound is not None
    )


def _release(text: str) -> tuple[int, ...]:
    """Return a release as PEP 440 compares it: trailing zeros do not count."""
    parts = [int(part) for part in text.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def _admits(requirement: str, version: str) -> bool | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return None
    if parsed.marker is not None and not parsed.marker.evaluate({"extra": ""}):
        return True
    if parsed.url is not None:
        return True
    return parsed.specifier.contains(version, prereleases=True)
