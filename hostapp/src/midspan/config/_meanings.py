"""What the keys of a table mean, as a person reads it."""

from __future__ import annotations

import re

from pydantic import BaseModel

from midspan._docstrings import attributes_of
from midspan.config._faults import keys_of

_AFTER_READING = re.compile(r",? in (?:milliseconds|bytes); in the file a (?:duration|size)(?: such as \"[^\"]*\")?")
"""A docstring speaks of the value after it was read; who writes the file sees the form of the file beside it."""


def meanings_of(model: type[BaseModel]) -> dict[str, str]:
    """Return what each key of a model's table means, in one sentence or some; an empty text where nobody says.

    It is the field's `description`, else what the `Attributes:` of the model's docstring say of it.
    """
    attributes = attributes_of(model)
    names = {id(field): name for name, field in model.model_fields.items()}
    found = {
        key: field.description or attributes.get(key) or attributes.get(names[id(field)], "")
        for key, field in keys_of(model).items()
    }
    return {key: _AFTER_READING.sub("", text) for key, text in found.items()}
