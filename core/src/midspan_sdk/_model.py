"""The pydantic base of everything that crosses the wire."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
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


def faulty_fields(error: ValidationError, *, whole: str) -> str:
    """Name the fields that do not fit, without their values.

    Args:
        error: what pydantic found.
        whole: the name of the model's value, for a fault that is in no one field.
    """
    return ", ".join(".".join(str(part) for part in item["loc"]) or whole for item in error.errors())
