"""Deadlines of handlers that nothing can interrupt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from midspan.config import PluginSettings

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.errors import OperatorError
    from midspan.plugins import Instance
    from midspan_sdk import ChainEntry, Interceptor

DEFAULT: Final = 1.0
"""Seconds: the deadline of whoever declares none."""

_INLINE: Final = {"plain": "a plain `def`", "stepped": "an `async def` that awaits nothing"}


def unenforced_deadlines(config: Config, instance: Instance, entries: Sequence[ChainEntry]) -> Iterator[OperatorError]:
    """Yield each deadline that the operator sets for handlers that run inline.

    Such a handler holds the event loop until it returns. Then it counts as failed when it was late, but until then
    nothing else runs.
    """
    from midspan.plugins import policy_place

    settings = config.plugins.get(instance.name, PluginSettings())
    by_place: dict[tuple[str, ...], list[ChainEntry]] = {}
    for entry in entries:
        if entry.origin("timeout") == "override" and _interceptor(instance, entry.name).kind in _INLINE:
            place = policy_place(settings, instance.name, instance.own_name(entry.name), "timeout")
            by_place.setdefault(place, []).append(entry)
    for place, late in by_place.items():
        names = " and ".join(entry.name for entry in late)
        how = _how([_interceptor(instance, entry.name) for entry in late])
        yield config.source.error(
            f"cannot be enforced for {names}, which {how}; leave it out, or ask the author for an `async def` that "
            "awaits, or `blocking=True`",
            *place,
        )


def declared_in_vain(instance: Instance) -> Iterator[OperatorError]:
    """Yield each deadline below the default that an author declares for a handler that runs inline.

    A longer one than the default promises nothing: it lets late results count.
    """
    for one in instance.interceptors:
        if one.timeout is not None and one.timeout < DEFAULT and one.kind in _INLINE:
            timeout = f"the timeout of {instance.own_name(one.name)!r}, {round(one.timeout * 1000)}ms,"
            problem = (
                f"{timeout} cannot be enforced: the handler {_how([one])}; its author should make it an `async def` "
                "that awaits, declare `blocking=True`, or leave the timeout out"
            )
            yield instance.plugin.info.error(problem, instance=instance.name)


def _interceptor(instance: Instance, name: str) -> Interceptor[..., Any]:
    return next(one for one in instance.interceptors if one.name == name)


def _how(interceptors: Sequence[Interceptor[..., Any]]) -> str:
    kinds = sorted({one.kind for one in interceptors})
    verb = "run" if len(interceptors) > 1 else "runs"
    return f"{verb} inline, as {' and '.join(_INLINE[kind] for kind in kinds)}"
