"""The corpus: what must be found, what must stay, and the figures in the README."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from midspan_sdk.payload import find_text
from midspan_secrets import KINDS, Scanner
from tests.plugins.secrets.corpus import BEYOND, FALSE_ALARMS, HOSTILE, NEAR, TRUE, Case, Maker
from tests.plugins.secrets.harness import guard

pytestmark = pytest.mark.anyio

README = Path(__file__).parents[3] / "plugins" / "secrets" / "README.md"


def by_name(case: Case) -> str:
    return case.name


def all_text(payload: dict[str, Any]) -> str:
    """Return everything a reader of the payload gets to see, as it stands and with JSON in text read."""
    return "\n".join([json.dumps(payload, ensure_ascii=False), *(text.value for text in find_text(payload))])


def survivors(case: Case, payload: dict[str, Any]) -> list[str]:
    left = all_text(payload)
    return [secret for secret in case.secrets if secret in left]


async def redacted(case: Case) -> dict[str, Any]:
    result = await guard(case.payload)
    assert result.status == "success"
    assert result.final_payload is not None
    return result.final_payload


@pytest.mark.parametrize("kind", [*KINDS, None])
async def test_secrets_are_gone_and_their_kind_stands_in_their_place(kind: str | None):
    for case in (case for case in TRUE if case.kind == kind):
        payload = await redacted(case)
        assert survivors(case, payload) == [], case.name
        assert kind is None or f"[REDACTED:{kind}]" in all_text(payload), case.name


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "private-key"])
async def test_what_stands_around_a_secret_stays_as_it_was(kind: str):
    for case in (case for case in TRUE if case.kind == kind):
        before, after = (payload["content"][0]["text"] for payload in (case.payload, await redacted(case)))
        (secret,) = case.secrets
        assert after == before.replace(secret, f"[REDACTED:{kind}]"), case.name


async def test_a_private_key_goes_with_its_first_and_last_line_and_no_more():
    for dashes in ("-----", "---- "):
        key = Maker("exact").pem("EC PRIVATE KEY").replace("-----B", f"{dashes}B").replace("-----E", f"{dashes}E")
        for before, after in (("", ""), ("x: ", " and more"), ('{"k": ', "} trailing")):
            result = await guard({"text": before + key + after})
            assert result.final_payload == {"text": f"{before}[REDACTED:private-key]{after}"}


@pytest.mark.parametrize("case", HOSTILE, ids=by_name)
async def test_a_hidden_secret_is_gone(case: Case):
    assert survivors(case, await redacted(case)) == []


@pytest.mark.parametrize("case", NEAR, ids=by_name)
async def test_a_near_miss_comes_back_as_the_very_same_payload(case: Case):
    assert await redacted(case) is case.payload


async def test_redacting_again_changes_nothing():
    for case in [*TRUE, *HOSTILE]:
        once = await redacted(case)
        assert (await guard(once)).final_payload is once, case.name


@pytest.mark.parametrize("case", BEYOND, ids=by_name)
async def test_what_the_readme_says_is_missed_is_missed(case: Case):
    assert survivors(case, await redacted(case)), "found now: move the case, and correct the README"


@pytest.mark.parametrize("case", FALSE_ALARMS, ids=by_name)
async def test_what_the_readme_calls_a_false_alarm_is_one(case: Case):
    assert await redacted(case) is not case.payload, "no false alarm any more: move the case"


def test_every_kind_has_true_cases():
    assert {case.kind for case in TRUE} - {None} == set(KINDS)


def test_the_repository_holds_no_secret_of_the_corpus():
    scanner = Scanner(KINDS)
    for source in Path(__file__).parent.glob("*.py"):
        assert scanner.find(source.read_text("utf-8")) == [], source.name


async def test_the_readme_states_precision_and_recall_as_measured():
    positives = [*TRUE, *HOSTILE, *BEYOND]
    negatives = [*NEAR, *FALSE_ALARMS]
    found = 0
    for case in positives:
        found += not survivors(case, await redacted(case))
    alarms = 0
    for case in negatives:
        alarms += await redacted(case) is not case.payload
    figures = f"{found} of {len(positives)} | {found / len(positives):.3f} | {alarms} of {len(negatives)}"
    assert f"| midspan-secrets | {figures} | {found / (found + alarms):.3f} |" in README.read_text("utf-8").splitlines()


def test_the_readme_lists_every_kind():
    rows = re.findall(r"^\| `([a-z-]+)` \|", README.read_text("utf-8").partition("## What it detects")[2], re.MULTILINE)
    assert rows == list(KINDS)
