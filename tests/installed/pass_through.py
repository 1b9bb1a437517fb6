"""A plugin whose validator and mutator take part in everything and change nothing; it notes the events it saw."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

from midspan_sdk import hookimpl, mutator, validator


@validator(events=["*"], phase="both")
def look(payload: Any, event: str, phase: str) -> None:
    with open(os.environ["SEEN_BY_PLUGIN"], "a") as file:
        file.write(f"{event} {phase}\n")


@mutator(events=["*"], phase="both")
def copy(payload: Any) -> Any:
    return deepcopy(payload)


@hookimpl
def midspan_interceptors() -> list[Any]:
    return [look, copy]
