"""What the operator may say in `[plugins.acme-shell.config]`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fragment = Annotated[str, Field(min_length=1)]


class ShellConfig(BaseModel):
    """The config table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tools: tuple[Fragment, ...] = Field(("shell",), min_length=1, description="Names of the tools that run commands.")
    forbidden: tuple[Fragment, ...] = Field(("rm -rf",), description="Texts that no argument may contain.")
    hide: tuple[Fragment, ...] = Field((), description="Texts that are cut out of results.")
