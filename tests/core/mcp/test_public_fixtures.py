"""The `list` and `invoke` steps of the public conformance fixtures, in both eras."""

import json
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp import MCPError

from midspan_sdk import Interceptor, ValidationMessage, ValidationResult, mutator, validator

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[4] / "shared" / "conformance" / "fixtures" / "protocol"
FIXTURES = sorted([*FOLDER.glob("list-*.json"), *FOLDER.glob("invoke-*.json")])


def bind(spec: dict[str, Any]) -> Interceptor[..., Any]:
    """Build the interceptor that a fixture describes."""
    options: dict[str, Any] = {
        "name": spec["name"],
        "events": spec["events"],
        "phase": spec["phases"],
        "mode": spec.get("mode", "active"),
        "fail_open": spec.get("failOpen", False),
    }

    def allow_all(payload: dict[str, Any]) -> None: ...

    def deny_all(payload: dict[str, Any]) -> ValidationResult:
        message = ValidationMessage(message="denied by policy", severity="error")
        return ValidationResult(valid=False, severity="error", messages=(message,))

    def uppercase_note(payload: dict[str, Any]) -> dict[str, Any] | None:
        arguments = payload.get("arguments", {})
        if not isinstance(arguments.get("note"), str):
            return None
        return {**payload, "arguments": {**arguments, "note": arguments["note"].upper()}}

    if spec["behavior"] == "uppercase-note":
        return mutator(**options)(uppercase_note)
    handler = {"allow-all": allow_all, "deny-all": deny_all}[spec["behavior"]]
    return validator(**options)(handler)


def without(value: Any, keys: list[str]) -> Any:
    """Drop volatile keys, at every depth."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: without(child, keys) for key, child in fields.items() if key not in keys}
    return [without(child, keys) for child in cast("list[Any]", value)] if isinstance(value, list) else value


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.skipif(not FIXTURES, reason="the public fixtures are not beside this repository")
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
async def test_a_public_fixture_is_answered_to_the_letter(connect: Any, send: Any, path: Path) -> None:
    fixture = json.loads(await anyio.Path(path).read_text())
    async with connect(*(bind(spec) for spec in fixture["interceptors"])) as client:
        for step in fixture["steps"]:
            if step["op"] == "list":
                method, params = "interceptors/list", {} if step["event"] is None else {"event": step["event"]}
            else:
                method, params = "interceptor/invoke", step["params"]
            expected = step["expect"]
            if "errorCode" in expected:
                with pytest.raises(MCPError) as caught:
                    await send(client, method, params)
                assert caught.value.code == expected["errorCode"]
                continue
            result = await send(client, method, params)
            for stamp in ("_meta", "resultType"):
                result.pop(stamp, None)
            assert canonical(without(result, fixture["volatile"])) == expected["canonical"]
