"""What all tables of the config file are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

from midspan.config._durations import milliseconds
from midspan.config._tables import NAME, NAME_FORM


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(NAME_FORM)
    return name


Milliseconds = Annotated[int, BeforeValidator(milliseconds)]
TableName = Annotated[StrictStr, AfterValidator(_name), Field(json_schema_extra={"pattern": f"^{NAME.pattern}$"})]


class Table(BaseModel):
    """A table of the config file: an unknown key is an error."""

    # What pydantic says is the cause of the operator's line, and a traceback would show the values in it.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
