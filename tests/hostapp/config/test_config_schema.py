"""The JSON Schema of midspan.toml says what the file accepts."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from midspan.config import Settings, config_schema, read_source, validated
from midspan.config._tables import TOP_KEYS
from midspan.errors import OperatorError

ROOT = Path(__file__).parents[3]
SCHEMA = config_schema()
VALIDATOR: Any = jsonschema.Draft202012Validator(SCHEMA)


def problems(text: str, validator: Any = VALIDATOR) -> list[str]:
    return [error.message for error in validator.iter_errors(tomllib.loads(text))]


def config_of(text: str, folder: Path) -> dict[str, Any] | None:
    """Return what a text is as a config that midspan accepts; None when it is none."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    if not data or not data.keys() <= set(TOP_KEYS) or "include" in data:
        return None
    file = folder / "midspan.toml"
    file.write_text(text, "utf-8")
    try:
        validated(read_source(file), {})
    except OperatorError:
        return None
    return data


def texts_of_tests() -> Iterator[str]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "[" in node.value:
                yield node.value


def texts_of_docs() -> Iterator[str]:
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "plugins").glob("*/README.md")]:
        yield from (block.partition("```")[0] for block in path.read_text("utf-8").split("```toml\n")[1:])
    for path in (ROOT / "docs").rglob("midspan*.toml"):
        yield path.read_text("utf-8")


def test_it_is_a_schema_of_the_draft_that_it_names() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == set(Settings.model_fields)
    text = json.dumps(SCHEMA)
    assert '"null"' not in text
    used = {f"#/$defs/{name}" for name in SCHEMA["$defs"]}
    assert {reference for reference in used if f'"{reference}"' not in text} == {"#/$defs/Elsewhere"}


def test_the_published_one_is_this_one() -> None:
    published = (ROOT / "docs/reference/midspan.schema.json").read_text("utf-8")
    assert json.loads(published) == SCHEMA, "run `uv run python docs/reference/_generate`"


def test_every_config_of_the_documentation_is_valid_by_it() -> None:
    found = [text for text in texts_of_docs() if tomllib.loads(text).keys() & set(TOP_KEYS)]
    assert len(found) > 10
    assert [(text, wrong) for text in found if (wrong := problems(text))] == []


def test_every_config_of_the_tests_that_midspan_accepts_is_valid_by_it(tmp_path: Path) -> None:
    found = [data for text in texts_of_tests() if (data := config_of(text, tmp_path)) is not None]
    assert len(found) > 60
    assert [(data, error.message) for data in found for error in VALIDATOR.iter_errors(data)] == []


@pytest.mark.parametrize(
    "text",
    [
        "[plugin.x]\n",
        "plugins = 3\n",
        "[plugins.X]\n",
        "[plugins.x]\nenabled = 'yes'\n",
        "[plugins.x]\nenabeld = true\n",
        "[plugins.x]\nuse = 'A b'\n",
        "[plugins.x]\nuse = '${X}'\n",
        "[plugins.x]\nmode = 'activ'\n",
        "[plugins.x]\ntimeout = 250\n",
        "[plugins.x]\ntimeout = '250'\n",
        "[plugins.x]\ntimeout = '0.5ms'\n",
        "[plugins.x]\ntimeout = '${1}'\n",
        "[plugins.x]\npriority = 'high'\n",
        "[plugins.x]\npriority = 2147483648\n",
        "[plugins.x]\npriority = { requst = 3 }\n",
        "[plugins.x]\nservers = []\n",
        "[plugins.x]\nservers = ['a b']\n",
        "[plugins.x]\nconfig = 'x'\n",
        "[plugins.x.interceptors.y]\nhooks = []\n",
        "[plugins.x.interceptors.y]\nhooks = [{ events = ['a'] }]\n",
        "[plugins.x.interceptors.y]\nhooks = [{ events = [], phase = 'both' }]\n",
        "[plugins.x.interceptors.y]\nmay_answer = true\n",
        "[servers.x]\n",
        "[servers.x]\ncommand = ''\n",
        "[servers.x]\ncommand = ['x']\n",
        "[servers.x]\ncommand = 'x'\nurl = 'http://h/'\n",
        "[servers.x]\ncommand = 'x'\nheaders = {}\n",
        "[servers.x]\ncommand = 'x'\nargs = ['$x']\n",
        "[servers.x]\ncommand = 'x'\ncwd = 'here'\n",
        "[servers.x]\ncommand = 'x'\nenv = { 'A=b' = '' }\n",
        "[servers.x]\ncommand = 'x'\nenv = { A = 1 }\n",
        "[servers.x]\ncommand = 'x'\nmax_message = 0\n",
        "[servers.x]\ncommand = 'x'\nmax_message = '1 Mb'\n",
        "[servers.x]\ncommand = 'x'\nask_timeout = '${T:-1s}'\n",
        "[servers.x]\nurl = 'http://h/'\nargs = []\n",
        "[servers.x]\nurl = 'http://h/'\nrestart = 'never'\n",
        "[servers.x]\nurl = 'ws://h/'\n",
        "[servers.x]\nurl = 'http://h/'\nheaders = { 'X: a' = 'b' }\n",
        "[servers.x]\nurl = 'http://h/'\ntransport = 'ws'\n",
        "[interceptor_servers.x]\nprefix = true\n",
        "[interceptor_servers.x]\nurl = 'http://h/'\nrestart = 'never'\n",
        "[gateway]\ndenials = 'eror'\n",
        "[limits]\nchain_timeout = 10\n",
        "[limits]\nmax_payload = -1\n",
        "[log]\nlevel = 'loud'\n",
        "[log.levels]\npolicy = 'loud'\n",
        "[audit]\nrequired = 'yes'\n",
        "include = 'x.toml'\n",
        "requires = [3]\n",
    ],
)
def test_what_midspan_refuses_at_sight_is_not_valid_by_it(text: str, tmp_path: Path) -> None:
    assert problems(text) != []
    assert text.startswith("include") or config_of(text, tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        "[plugins.x]\ntimeout = '${T:-1s}'\nmode = '${MODE:-audit}'\n",
        "[limits]\nmax_message = '${M:-1MiB}'\nchain_timeout = '1${UNIT:-s}'\n",
        "[log]\nlevel = '${LEVEL:-info}'\n[log.levels]\nx = '${LEVEL:-debug}'\n",
        "[plugins.x.interceptors.y]\nhooks = [{ events = ['${E:-a}'], phase = '${P:-both}' }]\n",
        "[servers.x]\ncommand = '${SHELL}'\nargs = ['$$', '${A:-$$}']\nenv = { A = '$file:x', B = 'file:/b' }\n",
        "[servers.x]\nurl = '${URL}'\n[servers.y]\nurl = 'https${X:-}://h/'\n",
    ],
)
def test_a_variable_may_stand_in_the_place_of_a_value(text: str, tmp_path: Path) -> None:
    assert problems(text) == []
    assert config_of(text, tmp_path) is not None


def test_defaults_are_as_the_file_has_them() -> None:
    limits = SCHEMA["$defs"]["LimitsTable"]["properties"]
    assert (limits["chain_timeout"]["default"], limits["max_message"]["default"]) == ("10s", "64MiB")
    assert config_schema()["$defs"]["AuditTable"]["properties"]["timeout"]["default"] == "5s"
    for table in SCHEMA["$defs"].values():
        for key, schema in table.get("properties", {}).items():
            if "default" in schema:
                whole = {"$defs": SCHEMA["$defs"], **schema}
                validator: Any = jsonschema.Draft202012Validator(whole)
                assert list(validator.iter_errors(schema["default"])) == [], key


def test_every_key_of_a_table_says_what_it_means() -> None:
    silent = [
        f"{name}.{key}"
        for name, table in SCHEMA["$defs"].items()
        for key, schema in table.get("properties", {}).items()
        if not schema.get("description") and name != "PriorityTable"
    ]
    assert silent == []
    assert "milliseconds" not in json.dumps(SCHEMA)


# Whatever the schema accepts

KEYS = sorted({key for table in SCHEMA["$defs"].values() for key in table.get("properties", {})})
WORDS = ["active", "audit", "both", "debug", "error", "json", "request", "result", "x", "5s", "0.25s", "7ms", "3MiB"]
SCALARS = (
    st.booleans()
    | st.integers(-(2**33), 2**33)
    | st.sampled_from(WORDS)
    | st.from_regex(r"[0-9]{1,3}(ms|s)", fullmatch=True)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*KEYS, "x"]), inner, max_size=3),
    max_leaves=6,
)


def plausible(table: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return tables whose keys are known and whose values are often, and not always, of the right kind."""
    properties: dict[str, Any] = SCHEMA["$defs"][table]["properties"]
    return st.dictionaries(st.sampled_from(sorted(properties)), VALUES, max_size=3)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "gateway": plausible("GatewayTable"),
            "limits": plausible("LimitsTable"),
            "audit": plausible("AuditTable"),
            "log": plausible("LogTable"),
            "plugins": st.dictionaries(st.sampled_from(["a", "b-2", "C"]), plausible("PluginSettings"), max_size=2),
        },
    )
)
def test_whatever_it_accepts_the_model_accepts(data: dict[str, Any]) -> None:
    accepted = VALIDATOR.is_valid(data)
    try:
        Settings.model_validate(data)
    except ValueError:
        # That a duration or size is above zero is beyond a pattern.
        zeros = ("0s", "00s", "000s", "0ms", "00ms", "000ms")
        assert not accepted or any(f'"{zero}"' in json.dumps(data) for zero in zeros)
    else:
        assert accepted


# Plugins


class Sub(BaseModel):
    model_config = ConfigDict(extra="forbid")
    depth: int = Field(ge=1)


class Guard(BaseModel):
    """What the guard does.

    Attributes:
        words: what is denied.
        level: how strict.
    """

    words: tuple[str, ...]
    level: int | None = Field(default=None, ge=1, le=9)
    subs: list[Sub] = []
    strict: StrictBool = False


WITH_PLUGINS: Any = jsonschema.Draft202012Validator(config_schema({"guard": Guard}))


def test_a_plugins_own_config_is_described_in_its_table_and_in_those_that_use_it() -> None:
    jsonschema.Draft202012Validator.check_schema(WITH_PLUGINS.schema)
    described = WITH_PLUGINS.schema["$defs"]["plugin.guard"]
    assert described["description"] == "What the guard does."
    assert described["properties"]["words"]["description"] == "what is denied."
    for head in ("[plugins.guard.config]\n", "[plugins.x]\nuse = 'guard'\n[plugins.x.config]\n"):
        assert problems(head + "words = ['a', '${B}']\nlevel = '${L}'\n", WITH_PLUGINS) == []
        assert problems(head + "words = ['a']\nsubs = [{ depth = 1 }]\n", WITH_PLUGINS) == []
        assert problems(head + "words = 'a'\n", WITH_PLUGINS) != []
        assert problems(head + "words = []\nwrods = []\n", WITH_PLUGINS) != []
        assert problems(head + "words = []\nlevel = 10\n", WITH_PLUGINS) != []
        assert problems(head + "words = []\nsubs = [{ dpth = 1 }]\n", WITH_PLUGINS) != []
        assert problems(head + "level = 1\n", WITH_PLUGINS) != []


def test_another_plugin_under_its_name_is_not_held_to_its_model() -> None:
    assert problems("[plugins.guard]\nuse = 'other'\n[plugins.guard.config]\nx = 1\n", WITH_PLUGINS) == []
    assert problems("[plugins.other.config]\nx = 1\n", WITH_PLUGINS) == []
    assert problems("[plugins.guard]\nmod = 'audit'\n", WITH_PLUGINS) != []
