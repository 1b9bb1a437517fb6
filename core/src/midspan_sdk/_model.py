"""The pydantic base of everything that crosses the wire."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """Snake case in Python, camel case on the wire; unknown keys of a newer peer are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        arbitrary_types_allowed=False,
    )

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object of the wire: camel case, fields at their default left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
