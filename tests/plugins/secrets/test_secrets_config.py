"""The config table: what it takes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from midspan_secrets import KINDS, SecretsConfig
from tests.plugins.secrets.corpus import MAKERS, Maker
from tests.plugins.secrets.harness import guard

pytestmark = pytest.mark.anyio

TOKEN = MAKERS["github-token"][0](Maker("config"))
KEY = MAKERS["npm-token"][0](Maker("config"))


async def text_under(text: str, **config: Any) -> str:
    result = await guard({"text": text}, config=config)
    assert result.final_payload is not None
    return result.final_payload["text"]


async def test_only_the_wanted_kinds_are_redacted():
    assert await text_under(f"{TOKEN} {KEY}", detect=["npm-token"]) == f"{TOKEN} [REDACTED:npm-token]"
    assert await text_under(f"{TOKEN} {KEY}", ignore=["npm-token"]) == f"[REDACTED:github-token] {KEY}"


async def test_an_allowed_value_stays_and_others_of_its_kind_go():
    other = MAKERS["github-token"][0](Maker("other"))
    assert await text_under(f"{TOKEN} {other}", allow=[TOKEN]) == f"{TOKEN} [REDACTED:github-token]"


async def test_the_replacement_is_the_operators():
    assert await text_under(f"a {TOKEN}", replacement="<removed {kind}>".replace("<", "(").replace(">", ")")) == (
        "a (removed github-token)"
    )
    assert await text_under(f"a {TOKEN}", replacement="***") == "a ***"


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"detect": ["github-tokn"]}, "unknown kind of secret 'github-tokn'; did you mean 'github-token'?"),
        ({"ignore": ["githubtoken"]}, "did you mean 'github-token'?"),
        ({"detect": ["zzz"]}, "known: age-key, "),
        ({"detect": []}, "nothing is left to detect"),
        ({"detect": ["jwt"], "ignore": ["jwt"]}, "nothing is left to detect"),
        ({"ignore": list(KINDS)}, "nothing is left to detect"),
        ({"detects": ["jwt"]}, "Extra inputs are not permitted"),
        ({"allow": [""]}, "at least 8 characters"),
        ({"allow": ["a"]}, "at least 8 characters"),
        ({"replacement": ""}, "at least 1 character"),
        ({"replacement": "x" * 201}, "at most 200 characters"),
        ({"replacement": "[{name}]"}, "the only placeholder is {kind}"),
        ({"replacement": "[{}]"}, "the only placeholder is {kind}"),
        ({"replacement": "[{kind!r}]"}, "the only placeholder is {kind}"),
        ({"replacement": "[{kind:>20}]"}, "the only placeholder is {kind}"),
        ({"replacement": "[{kind"}, "is no template"),
        ({"replacement": "{{kind}}"}, "the only placeholder is {kind}"),
        ({"replacement": 'a "quote"'}, "must not contain '\"'"),
        ({"replacement": "a \\ b"}, "must not contain"),
        ({"replacement": "a\nb"}, "must not contain"),
        ({"replacement": TOKEN}, "looks like a secret itself"),
    ],
)
def test_what_cannot_do_what_it_says_is_refused(table: dict[str, Any], problem: str):
    with pytest.raises(ValidationError) as refused:
        SecretsConfig.model_validate(table)
    assert problem in str(refused.value)


def test_the_kinds_are_in_the_schema_for_editors():
    schema = SecretsConfig.model_json_schema()
    assert schema["properties"]["detect"]["items"]["enum"] == list(KINDS)
    assert schema["additionalProperties"] is False


def test_a_config_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        SecretsConfig().replacement = "x"  # pyright: ignore[reportAttributeAccessIssue] - that is the test
