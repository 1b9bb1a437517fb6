"""What all tables of the config file are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

from midspan.config import _durations, _sizes
from midspan.config._durations import milliseconds
from midspan.config._sizes import size
from midspan.config._tables import NAME, name_form


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(name_form(name))
    return name


_DurationText = Annotated[str, Field(json_schema_extra={"title": "duration", "pattern": _durations.PATTERN})]
_SizeText = Annotated[str, Field(json_schema_extra={"title": "size", "pattern": _sizes.PATTERN})]
_Bytes = Annotated[int, Field(json_schema_extra={"title": "bytes", "minimum": 1})]

Milliseconds = Annotated[int, BeforeValidator(milliseconds, json_schema_input_type=_DurationText)]
Size = Annotated[int, BeforeValidator(size, json_schema_input_type=_SizeText | _Bytes)]
TableName = Annotated[StrictStr, AfterValidator(_name), Field(json_schema_extra={"pattern": f"^{NAME.pattern}$"})]


class Table(BaseModel):
    """A table of the config file: an unknown key is an error."""

    # What pydantic says is the cause of the operator's line, and a traceback would show the values in it.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
