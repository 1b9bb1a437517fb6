"""The model of the config file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from midspan.config._base import Milliseconds, Table, TableName
from midspan.config._resolved import DenialAs, DenialDetail
from midspan.config._servers import ServerTable

Int32 = Annotated[StrictInt, Field(ge=-(2**31), le=2**31 - 1)]


class PriorityTable(Table):
    """A priority for each phase; lower runs first, a missing side is 0."""

    request: Int32 = 0
    response: Int32 = 0


def _both_phases(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"request": value, "response": value}
    if isinstance(value, dict | PriorityTable):
        return value  # pyright: ignore[reportUnknownVariableType] - the model checks what is in it
    raise ValueError("must be a whole number, or a table such as { request = 10, response = -10 }")


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
    priority: Annotated[PriorityTable, BeforeValidator(_both_phases)] | None = None
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
        config: the plugin's own config, validated by the plugin's model.
        interceptors: overrides by the interceptor's own name.
    """

    enabled: StrictBool | None = None
    use: TableName | None = None
    distribution: StrictStr | None = None
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


class Settings(Table):
    """The whole file.

    Attributes:
        gateway: how the gateway meets clients.
        plugins: plugin instances by name, in the order of the file.
        servers: servers to guard by name, in the order of the file.
    """

    gateway: GatewayTable = Field(default_factory=GatewayTable)
    plugins: dict[TableName, PluginSettings] = Field(default_factory=dict)
    servers: dict[TableName, ServerTable] = Field(default_factory=dict)
