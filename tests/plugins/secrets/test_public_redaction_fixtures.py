"""The secrets of the public conformance fixtures, redacted by this plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugins.secrets.harness import guard

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[4] / "shared" / "conformance" / "fixtures" / "behavior"
REDACTION = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("redaction-*.json"))}
RELAY = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("relaybleed-*.json"))}


@pytest.mark.skipif(not REDACTION, reason="the public fixtures are not beside this repository")
@pytest.mark.parametrize("fixture", REDACTION)
async def test_the_fixtures_secret_is_gone(fixture: str):
    for step in (step for step in REDACTION[fixture]["steps"] if step["expect"].get("forbids")):
        result = await guard(step["payload"], event=step["event"], phase=step["phase"])
        assert result.status == "success"
        left = json.dumps(result.final_payload)
        assert not any(secret in left for secret in step["expect"]["forbids"])


@pytest.mark.skipif(not REDACTION, reason="the public fixtures are not beside this repository")
async def test_every_secret_of_the_relay_fixtures_is_detected():
    for name, fixture in RELAY.items():
        for step in fixture["steps"][1:]:
            result = await guard(step["payload"], event=step["event"], phase=step["phase"])
            assert "[REDACTED:" in json.dumps(result.final_payload), name
