"""Plugin instances that do the same twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.errors import OperatorError
    from midspan.plugins import Instance


def doubled_instances(config: Config, instances: Sequence[Instance]) -> Iterator[OperatorError]:
    """Yield each instance before which another one of the same plugin, with the same config, is in the same chain."""
    for number, instance in enumerate(instances):
        for other in instances[:number]:
            if other.plugin is instance.plugin and other.config == instance.config:
                problem = (
                    f"does again what [plugins.{other.name}] does: the same plugin with the same config; remove one of "
                    "the two, or give them scopes that do not overlap"
                )
                yield config.source.error(problem, "plugins", instance.name)
                break
