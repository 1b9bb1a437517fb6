"""The model of the config file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from midspan.config._base import Milliseconds, Size, Table, TableName
from midspan.config._resolved import DenialAs, DenialDetail
from midspan.config._scopes import PATTERN, check_pattern
from midspan.config._servers import ConnectionTable, ServerTable
from midspan.config._tables import DISTRIBUTION_PATTERN
from midspan.gateway import MAX_MESSAGE

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]

Int32 = Annotated[StrictInt, Field(ge=-(2**31), le=2**31 - 1)]


class PriorityTable(Table):
    """A priority for each phase; lower runs first, a missing side is 0."""

    request: Int32 = 0
    response: Int32 = 0


def _pattern(text: str) -> str:
    check_pattern(text)
    return text


ServerPattern = Annotated[
    StrictStr, AfterValidator(_pattern), Field(json_schema_extra={"pattern": f"^{PATTERN.pattern}$"})
]
Scope = Annotated[list[ServerPattern], Field(min_length=1)]


def _requirement(text: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except InvalidRequirement:
        raise ValueError('must be a requirement, such as "midspan-pii>=0.2"') from None
    return text


def _both_phases(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"request": value, "response": value}
    if isinstance(value, dict | PriorityTable):
        return value  # pyright: ignore[reportUnknownVariableType] - the model checks what is in it
    raise ValueError("must be a whole number, or a table such as { request = 10, response = -10 }")


_Priority = BeforeValidator(_both_phases, json_schema_input_type=Int32 | PriorityTable)


class HookTable(Table):
    """Where an interceptor hooks in; narrows what it declares.

    Attributes:
        events: JSON-RPC methods, or globs whose `*` crosses `/`.
        phase: `request`, `response` or `both`.
    """

    events: Annotated[list[StrictStr], Field(min_length=1)]
    phase: Literal["request", "response", "both"]


class PolicyTable(Table):
    """The operator's policy. What is left out stays as the plugin declares it.

    Attributes:
        mode: `active`, or `audit`, which records and never blocks.
        fail_open: let messages pass when the interceptor fails.
        priority: for mutators; lower runs first.
        timeout: deadline in milliseconds; in the file a duration such as "250ms".
    """

    mode: Literal["active", "audit"] | None = None
    fail_open: StrictBool | None = None
    priority: Annotated[PriorityTable, _Priority] | None = None
    timeout: Milliseconds | None = None


class InterceptorTable(PolicyTable):
    """Overrides for one interceptor: `[plugins.<name>.interceptors.<interceptor>]`.

    Attributes:
        hooks: where it hooks in, narrower than it declares.
    """

    hooks: Annotated[list[HookTable], Field(min_length=1)] | None = None


class PluginSettings(PolicyTable):
    """One instance of a plugin: `[plugins.<name>]`.

    Attributes:
        enabled: whether it runs; installed is not enabled.
        use: the id of the plugin, when the table's name is another.
        distribution: the distribution that must own the id.
        servers: names of the servers that it guards, or globs; by default all.
        config: the plugin's own config, validated by the plugin's model.
        interceptors: overrides by the interceptor's own name.
    """

    enabled: StrictBool | None = None
    use: TableName | None = None
    distribution: Annotated[StrictStr, Field(json_schema_extra={"pattern": DISTRIBUTION_PATTERN})] | None = None
    servers: Scope | None = None
    config: dict[StrictStr, Any] = Field(default_factory=dict)
    interceptors: dict[StrictStr, InterceptorTable] = Field(default_factory=dict)


class GatewayTable(Table):
    """How the gateway meets clients: `[gateway]`, for all servers that do not say otherwise.

    Attributes:
        denials: how a blocked `tools/call` is answered: with a tool `result`, which a model reads, or a JSON-RPC
            `error`, as all other requests are.
        denial_detail: how much a denial says: `none`, the `rule` that blocked, or its `reason` too.
        expose_interceptors: serve the interceptors to clients, which may then list and invoke them.
        coerce_input_schemas: give `{"type": "object"}` as `inputSchema` to tools that a server lists without one, which
            many clients refuse.
        ask_timeout: time for a user to answer what an interceptor asks, in milliseconds; in the file a duration such as
            "90s". By default five minutes.
    """

    denials: DenialAs = "result"
    denial_detail: DenialDetail = "rule"
    expose_interceptors: StrictBool = False
    coerce_input_schemas: StrictBool = False
    ask_timeout: Milliseconds | None = None


class RemoteInterceptorTable(InterceptorTable):
    """Overrides for one interceptor of a server: `[interceptor_servers.<name>.interceptors.<interceptor>]`.

    Attributes:
        may_answer: let a mutator answer requests in the place of the guarded server.
    """

    may_answer: StrictBool | None = None


class InterceptorServerTable(ConnectionTable, PolicyTable):
    """A server whose interceptors join the chain: `[interceptor_servers.<name>]`, with either `command` or `url`.

    Attributes:
        enabled: whether its interceptors run.
        servers: names of the guarded servers whose chains they join, or globs; by default all.
        prefix: put the table's name and a dot before the names of its interceptors.
        may_answer: let its mutators answer requests in the place of the guarded server.
        interceptors: overrides by the interceptor's name on its server.
    """

    enabled: StrictBool = True
    servers: Scope | None = None
    prefix: StrictBool = True
    may_answer: StrictBool | None = None
    interceptors: dict[StrictStr, RemoteInterceptorTable] = Field(default_factory=dict)


class LimitsTable(Table):
    """Bounds: `[limits]`.

    Attributes:
        chain_timeout: deadline of a whole chain for one message, in milliseconds; in the file a duration such as "10s".
        max_message: the longest message of a server or client, in bytes; in the file a size such as "64MiB". A server's
            own table wins.
        max_payload: the largest payload that a mutator may return, in bytes; in the file a size.
    """

    chain_timeout: Milliseconds = 10_000
    max_message: Size = MAX_MESSAGE
    max_payload: Size = MAX_MESSAGE


class AuditTable(Table):
    """What must be recorded: `[audit]`. Where and how, the plugin that records says in its own table.

    Attributes:
        required: refuse to guard a server for which no durable observer of decisions is enabled, such as the plugin
            `audit`.
        timeout: time in which a durable observer must have kept a decision, in milliseconds; in the file a duration.
            Else the message is blocked.
    """

    required: StrictBool = False
    timeout: Milliseconds = 5_000


class LogTable(Table):
    """What midspan writes on stderr: `[log]`.

    Attributes:
        format: lines of `text`, or of `json`, for programs.
        level: the least level that is written.
        levels: levels of single plugins by their id, or of loggers by their name.
    """

    format: LogFormat = "text"
    level: LogLevel = "info"
    levels: dict[StrictStr, LogLevel] = Field(default_factory=dict)


class Settings(Table):
    """The whole file.

    Attributes:
        include: further files, relative to this one; in the last part of a path `*`, `?` and `[...]` match names.
        requires: distributions that must be installed, as requirements such as "midspan-pii>=0.2".
        audit: what must be recorded.
        gateway: how the gateway meets clients.
        interceptor_servers: servers whose interceptors join the chain, by name.
        limits: bounds.
        log: what midspan writes on stderr.
        plugins: plugin instances by name, in the order of the file.
        servers: servers to guard by name, in the order of the file.
    """

    include: list[StrictStr] = Field(default_factory=list)
    requires: list[Annotated[StrictStr, AfterValidator(_requirement)]] = Field(default_factory=list)
    audit: AuditTable = Field(default_factory=AuditTable)
    gateway: GatewayTable = Field(default_factory=GatewayTable)
    interceptor_servers: dict[TableName, InterceptorServerTable] = Field(default_factory=dict)
    limits: LimitsTable = Field(default_factory=LimitsTable)
    log: LogTable = Field(default_factory=LogTable)
    plugins: dict[TableName, PluginSettings] = Field(default_factory=dict)
    servers: dict[TableName, ServerTable] = Field(default_factory=dict)
