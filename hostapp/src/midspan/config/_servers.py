"""How servers are reached, and the `[servers.<name>]` tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from midspan._web import field_names, field_value
from midspan.config._base import Milliseconds, Size, Table
from midspan.config._resolved import DenialAs, DenialDetail, RemoteServer, Restart, StdioServer, Transport
from midspan.config._server_rules import (
    FIELD_NAME_PATTERN,
    FIELD_PATTERN,
    FOLDER_PATTERN,
    PROGRAM_PATTERN,
    SECRET_PATTERN,
    TEXT_PATTERN,
    URL_PATTERN,
    VARIABLE_NAME_PATTERN,
    Rule,
    argument,
    endpoint,
    folder,
    program,
    variable_names,
)
from midspan.config._source import ConfigSource
from midspan.config._values import absolute, expand, secret, split_secret, variables
from midspan.gateway import MAX_MESSAGE


def _hold(text: str, rule: Rule) -> None:
    """Hold a text to a rule, unless that cannot be told before its variables are known."""
    if not variables(text):
        rule(expand(text, {}))


def _looks(pattern: str) -> Any:
    return Field(json_schema_extra={"pattern": pattern})


def _text(rule: Rule) -> AfterValidator:
    def check(text: str) -> str:
        _hold(text, rule)
        return text

    return AfterValidator(check)


def _secret(rule: Rule) -> AfterValidator:
    def check(text: str) -> str:
        kind, rest = split_secret(text)
        _hold(rest, absolute if kind == "file" else rule)
        return text

    return AfterValidator(check)


def _names(rule: Callable[[Iterable[str]], None]) -> AfterValidator:
    def check(table: dict[str, str]) -> dict[str, str]:
        rule(table)
        return table

    return AfterValidator(check)


_VariableName = Annotated[StrictStr, _looks(VARIABLE_NAME_PATTERN)]
_VariableValue = Annotated[StrictStr, _secret(argument), _looks(SECRET_PATTERN)]
_FieldName = Annotated[StrictStr, _looks(FIELD_NAME_PATTERN)]
_FieldValue = Annotated[StrictStr, _secret(field_value), _looks(FIELD_PATTERN)]


class ConnectionTable(Table):
    """How a server is started or connected to: either `command` or `url`.

    The table holds the texts as they are written: `${NAME}` is replaced, and a `file:` read, by `resolved`, thus when
    the server is used. A command that needs no server works without its variables. What can be told before, such as a
    `$` that is no variable, is refused when the file is read.

    Attributes:
        command: the program to start; looked up in `PATH`.
        url: the endpoint to connect to, `http` or `https`.
        args: arguments of `command`.
        env: variables for `command`, added to the environment.
        cwd: working directory of `command`, absolute.
        transport: how `url` speaks: `http` is streamable HTTP, `sse` the older HTTP+SSE.
        headers: header fields for `url`, added to every request.
    """

    command: Annotated[StrictStr, _text(program), _looks(PROGRAM_PATTERN)] | None = None
    url: Annotated[StrictStr, _text(endpoint), _looks(URL_PATTERN)] | None = Field(default=None, repr=False)
    args: list[Annotated[StrictStr, _text(argument), _looks(TEXT_PATTERN)]] = Field(default_factory=list, repr=False)
    env: Annotated[dict[_VariableName, _VariableValue], _names(variable_names)] = Field(
        default_factory=dict, repr=False
    )
    cwd: Annotated[StrictStr, _text(folder), _looks(FOLDER_PATTERN)] | None = None
    transport: Transport = "http"
    headers: Annotated[dict[_FieldName, _FieldValue], _names(field_names)] = Field(default_factory=dict, repr=False)

    @field_validator("args", "env", "cwd", "restart", mode="before", check_fields=False)
    @classmethod
    def _goes_with_command(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("url") is not None and info.data.get("command") is None:
            raise ValueError("goes with `command`; this server has a `url`")
        return value

    @field_validator("transport", "headers", mode="before")
    @classmethod
    def _goes_with_url(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("command") is not None and info.data.get("url") is None:
            raise ValueError("goes with `url`; this server has a `command`")
        return value

    @model_validator(mode="after")
    def _is_one_server(self) -> Self:
        if self.command is None and self.url is None:
            raise ValueError("needs `command`, the program to start, or `url`, the endpoint to connect to")
        if self.command is not None and self.url is not None:
            raise ValueError("has both `command` and `url`; give one of them")
        return self

    def resolved(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        source: ConfigSource | None = None,
        place: tuple[str, ...] = (),
    ) -> StdioServer | RemoteServer:
        """Return the server that the table describes: variables replaced, files read.

        Args:
            environ: the variables; None for the environment of this process.
            source: the file that the table stands in, for errors.
            place: the keys of the table in it, for errors.

        Raises:
            ConfigError: a variable is not set, a file cannot be read, or what they hold is not acceptable there. It
                names the file, the key and the variable, and shows no value.
        """
        reading = _Reading(os.environ if environ is None else environ, source or ConfigSource(), place)
        if self.url is not None:
            return RemoteServer(
                url=reading.text(self.url, endpoint, "url"),
                transport=self.transport,
                headers=reading.secrets(self.headers, field_value, "headers"),
                max_message=MAX_MESSAGE,
            )
        assert self.command is not None
        arguments = [reading.text(text, argument, "args", index) for index, text in enumerate(self.args)]
        return StdioServer(
            command=(reading.text(self.command, program, "command"), *arguments),
            env=reading.secrets(self.env, argument, "env"),
            cwd=None if self.cwd is None else absolute(reading.text(self.cwd, folder, "cwd")),
            restart="never",
            max_message=MAX_MESSAGE,
        )


class ServerTable(ConnectionTable):
    """A server to guard: `[servers.<name>]`.

    Attributes:
        restart: start `command` again when it ends: `never`, after a failure, or `always`.
        max_message: the longest message, in bytes; in the file a size such as "64MiB". By default what `[limits]` says.
        denials: for this server, in the place of what `[gateway]` says.
        denial_detail: as `denials`.
        expose_interceptors: as `denials`.
        coerce_input_schemas: as `denials`.
        ask_timeout: as `denials`.
    """

    restart: Restart = "never"
    max_message: Size | None = None
    denials: DenialAs | None = None
    denial_detail: DenialDetail | None = None
    expose_interceptors: StrictBool | None = None
    coerce_input_schemas: StrictBool | None = None
    ask_timeout: Milliseconds | None = None

    def resolved(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        source: ConfigSource | None = None,
        place: tuple[str, ...] = (),
    ) -> StdioServer | RemoteServer:
        """Return the server; see `ConnectionTable.resolved`."""
        server = super().resolved(environ, source=source, place=place)
        if isinstance(server, StdioServer):
            server = replace(server, restart=self.restart)
        return server if self.max_message is None else replace(server, max_message=self.max_message)


@dataclass(frozen=True, slots=True)
class _Reading:
    environ: Mapping[str, str]
    source: ConfigSource
    place: tuple[str, ...]

    def text(self, text: str, rule: Rule, *keys: str | int) -> str:
        return self._value(expand, text, rule, *keys)

    def secrets(self, table: Mapping[str, str], rule: Rule, key: str) -> dict[str, str]:
        return {name: self._value(secret, text, rule, key, name) for name, text in table.items()}

    def _value(self, meaning: Callable[[str, Mapping[str, str]], str], text: str, rule: Rule, *keys: str | int) -> str:
        try:
            value = meaning(text, self.environ)
            rule(value)
        except ValueError as error:
            raise self.source.error(str(error), *self.place, *keys) from None
        return value
