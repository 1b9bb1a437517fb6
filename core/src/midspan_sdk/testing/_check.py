"""The conformance check of a plugin."""

from __future__ import annotations

import importlib.util
import inspect
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, cast

import anyio
from pydantic import BaseModel, ValidationError

from midspan_sdk._asking import Question, Reply
from midspan_sdk._authoring import Interceptor
from midspan_sdk._chain import Chain
from midspan_sdk._contributions import Command, Problem, ServerResolver
from midspan_sdk._descriptor import Descriptor
from midspan_sdk._exchange import Exchange
from midspan_sdk._invocation import InvocationContext
from midspan_sdk._observers import Observer
from midspan_sdk._outcome import FailedResult
from midspan_sdk._plain import plain_object, same
from midspan_sdk.errors import MidspanError, UnmetNeedError
from midspan_sdk.testing._messages import ODD, ORDINARY, Message
from midspan_sdk.testing._plugin import EVERY_NEED, Plugin, hook_problems, name_of
from midspan_sdk.wire import INVALID_PARAMS, Phase

_CONTEXT: Final = InvocationContext(session_id="test", server="test", flow="test")
_HEAVY: Final = ("mcp", "mcp_types", "starlette", "uvicorn")
_IMPORT_LIMIT: Final = 60.0


def check_plugin(
    plugin: object,
    *,
    config: BaseModel | Mapping[str, Any] | None = None,
    instance: str = "test",
    payloads: Iterable[Message] = (),
) -> None:
    """Check that a plugin conforms, as every first-party plugin does. Call it from a test, outside of an event loop.

    Checked are: hooks are known, plain functions that take known arguments; the config model refuses unknown keys, at
    every depth; `midspan_interceptors` called twice gives equal descriptors, which survive the wire; observers,
    resolvers, commands and problems have their shape; importing the plugin imports neither `mcp` nor a web framework;
    and every handler takes ordinary messages of its events without failing, within its deadline, and leaves the payload
    it was given alone (a mutator may edit its copy if it returns it). Odd messages, which no schema allows and a peer
    can send all the same, it may refuse with `InvalidInvocationError`, as typed payloads do, but not crash on.

    `midspan_lifespan` is entered, so give it a config that works in a test. Interceptors that need `tools` or `ask`
    are described but not run.

    Args:
        plugin: a module or an instance, as in `interceptors_from`.
        config: its config table, or the model itself.
        instance: the name of the config table.
        payloads: more messages to run, as `(event, phase, payload)`.

    Raises:
        AssertionError: it does not conform; the message lists every finding, one a line.
    """
    findings = _findings(plugin, config, instance, [*ORDINARY, *payloads])
    if findings:
        raise AssertionError(f"{name_of(plugin)} does not conform:\n" + "\n".join(f"- {one}" for one in findings))


def _findings(
    plugin: object, config: BaseModel | Mapping[str, Any] | None, instance: str, messages: Sequence[Message]
) -> list[str]:
    found = [*hook_problems(plugin), *_import_problems(plugin)]
    try:
        wrapped = Plugin(plugin, config, instance)
        first, second = wrapped.interceptors(), wrapped.interceptors()
    except ValidationError as error:
        return [*found, f"the config does not fit {error.title}: {_fields_of(error)}"]
    except (AssertionError, MidspanError) as error:
        return [*found, *([] if str(error) in found else [str(error)])]
    if wrapped.model is not None:
        found += _config_problems(wrapped.model)
    found += _descriptor_problems(first, second)
    found += _contribution_problems(wrapped, first)
    return found + anyio.run(_handler_problems, wrapped, messages)


def _import_problems(plugin: object) -> list[str]:
    name = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
    if name.rpartition(".")[2].startswith("test_"):
        return []  # a plugin that a test made up; importing it would import the test runner
    try:
        if importlib.util.find_spec(name) is None:
            return []
    except (ImportError, ValueError):  # a file that was loaded by its path, or `__main__`
        return []
    program = (
        "import importlib, json, sys; importlib.import_module(sys.argv[1]); print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(  # noqa: S603 - this interpreter, and the plugin's own name
        [sys.executable, "-c", program, name], capture_output=True, text=True, timeout=_IMPORT_LIMIT, check=False
    )
    if done.returncode != 0:
        return [f"importing {name} fails: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"]
    loaded = frozenset(json.loads(done.stdout.strip().splitlines()[-1]))
    return [
        f"importing {name} imports {heavy}; import it where it is first needed" for heavy in _HEAVY if heavy in loaded
    ]


def _fields_of(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'config'}: {one['msg']}" for one in error.errors()
    )


def _config_problems(model: type[BaseModel]) -> list[str]:
    schema = model.model_json_schema()
    definitions = cast("dict[str, dict[str, Any]]", schema.get("$defs", {}))
    return [
        f"config model {name}: accepts unknown keys; give it model_config = ConfigDict(extra='forbid')"
        for name, each in ((model.__name__, schema), *definitions.items())
        if "properties" in each and each.get("additionalProperties") is not False
    ]


def _descriptor_problems(first: list[Interceptor[..., Any]], second: list[Interceptor[..., Any]]) -> list[str]:
    found: list[str] = []
    if [one.descriptor for one in first] != [one.descriptor for one in second]:
        found.append("midspan_interceptors: called twice it gives different interceptors; it must be pure")
    for one in first:
        wire = json.loads(json.dumps(one.descriptor.to_wire()))
        if Descriptor.model_validate(wire) != one.descriptor:
            found.append(f"interceptor {one.name!r}: its descriptor does not survive the wire")
    return found


def _contribution_problems(plugin: Plugin, interceptors: list[Interceptor[..., Any]]) -> list[str]:
    found: list[str] = []
    observers: list[object] = [*plugin.observers()]
    if any(not (isinstance(one, Observer) and inspect.iscoroutinefunction(one.observe)) for one in observers):
        found.append("midspan_observers: gives something that has no name, durable and async observe(record)")
    resolvers: list[object] = [*(plugin.call("midspan_resolvers") or ())]
    if any(not (isinstance(one, ServerResolver) and inspect.iscoroutinefunction(one.resolve)) for one in resolvers):
        found.append("midspan_resolvers: gives something that has no async resolve(context, event)")
    if any(not isinstance(command, Command) for command in plugin.commands()):
        found.append("midspan_commands: gives something that is no Command")
    chain = Chain(gives=EVERY_NEED)
    chain.add(*interceptors)
    for problem in plugin.call("midspan_checks", entries=chain.entries) or ():
        if not isinstance(problem, Problem):
            found.append("midspan_checks: gives something that is no Problem")
        elif problem.severity == "error":
            found.append(f"midspan_checks: finds an error in this config: {problem.message}")
    return found


async def _handler_problems(plugin: Plugin, messages: Sequence[Message]) -> list[str]:
    found: dict[str, None] = {}
    async with plugin.lifespan() as lifespan:
        for interceptor in plugin.interceptors(lifespan):
            for odd, (event, phase, payload) in [*((False, one) for one in messages), *((True, one) for one in ODD)]:
                if interceptor.descriptor.matches(event, phase):
                    found.update(dict.fromkeys(await _one_handler(interceptor, event, phase, payload, odd=odd)))
    return list(found)


async def _one_handler(
    interceptor: Interceptor[..., Any], event: str, phase: Phase, payload: Mapping[str, Any], *, odd: bool
) -> list[str]:
    where = f"interceptor {interceptor.name!r} on {'an odd' if odd else 'an ordinary'} {event} {phase}"
    given: list[tuple[dict[str, Any], dict[str, Any]]] = []
    exchange = Exchange()
    exchange.keep_request(plain_object(payload) if phase == "request" else _request_of(event))
    async with Chain(ask=_declines) as chain:
        try:
            chain.add(_spied(interceptor, given))
        except UnmetNeedError:
            return []
        result = await chain.execute(
            event=event, phase=phase, payload=plain_object(payload), context=_CONTEXT, exchange=exchange
        )
    failures = [one for one in result.results if isinstance(one, FailedResult)]
    found = [
        f"{where}: {_reason_of(failure)}"
        for failure in failures
        if not (odd and failure.error["code"] == INVALID_PARAMS)
    ]
    if chain.failed.get(interceptor.name) and not (odd and interceptor.signature.typed is not None):
        found.append(f"{where}: the sink failed; the log says why")
    if interceptor.type != "mutation" and any(not same(after, before) for after, before in given):
        found.append(f"{where}: edits the payload it was given")
    return found


async def _declines(question: Question, /) -> Reply:
    return Reply(action="decline")


def _request_of(event: str) -> Mapping[str, Any]:
    requests = [payload for one, phase, payload in ORDINARY if (one, phase) == (event, "request")]
    return requests[0] if requests else {}


def _reason_of(failure: FailedResult) -> str:
    return str(failure.error.get("data", {}).get("reason", failure.error.get("message")))


def _spied(
    interceptor: Interceptor[..., Any], given: list[tuple[dict[str, Any], dict[str, Any]]]
) -> Interceptor[..., Any]:
    names = interceptor.signature.names
    if "payload" not in names:
        return interceptor
    handler = interceptor.handler
    positional = [name for name in names if name not in interceptor.signature.keyword_only]

    def spy(*arguments: Any, **keywords: Any) -> Any:
        payload = {**dict(zip(positional, arguments, strict=True)), **keywords}["payload"]
        given.append((payload, plain_object(payload)))
        return handler(*arguments, **keywords)

    spied = interceptor.bound()
    spied.handler = spy
    return spied
