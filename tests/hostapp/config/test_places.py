"""The place in the file that an error names."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings

from midspan.config import ConfigFile, read_source
from midspan.errors import ConfigError

from .toml_texts import CHANCES, DOCUMENTS, Keys, Writer


def place(tmp_path: Path, text: str | bytes, *keys: str | int) -> tuple[int | None, int | None]:
    path = tmp_path / "midspan.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    error = read_source(path).error("is wrong", *keys)
    return error.line, error.column


def ways(value: object, keys: Keys = ()) -> Iterator[Keys]:
    if keys:
        yield keys
    entries: Any = ()
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        entries = enumerate(cast("list[Any]", value))
    for key, inner in entries:
        yield from ways(inner, (*keys, key))


@settings(max_examples=300)
@given(DOCUMENTS, CHANCES)
def test_every_key_and_element_of_any_layout_has_the_place_where_it_was_written(
    data: dict[str, Any], chance: Random
) -> None:
    writer = Writer(data, chance)
    text = writer.text.removeprefix("\ufeff")
    assert tomllib.loads(text) == data
    assert set(ways(data)) == set(writer.offsets)
    file = ConfigFile(path=Path("midspan.toml"), text=writer.text)
    for keys, offset in writer.offsets.items():
        before = writer.text[:offset].removeprefix("\ufeff")
        error = file.error("is wrong", *keys)
        assert (error.line, error.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


@pytest.mark.parametrize(
    ("text", "keys", "expected"),
    [
        ("[plugins.policy.config]\ndeny = [\n  'a', # no ]\n  'b',\n]\n", "plugins policy config deny 1", (4, 3)),
        ("[plugins.policy]\n", "plugins", (1, 2)),
        ("[ plugins . 'policy' ]\n", "plugins policy", (1, 13)),
        ('[plugins."p\\u006Flicy"]\nenabled = 3\n', "plugins policy enabled", (2, 1)),
        ("plugins = { policy = { config = { a = [{ b = 1 }] } } }\n", "plugins policy config a 0 b", (1, 42)),
        ("plugins.policy.enabled = 3\n", "plugins policy enabled", (1, 16)),
        ("[[a]]\nx = 1\n[[a]]\n[a.b]\nx = 2\n", "a 1 b x", (5, 1)),
        ("[[a]]\nx = 1\n[[a]]\n[a.b]\nx = 2\n", "a 1", (3, 3)),
        ("[[a]]\nx = 1\n[[a]]\n[a.b]\nx = 2\n", "a 0 x", (2, 1)),
        ("[a.b]\n[a]\nx = 1\n", "a", (1, 2)),
        ("a = '''\n[b]\nx = 1'''\n[b]\n\t x = 2\n", "b x", (5, 3)),
        ('a = """\n\\"""\n[b]\nx = 1"""""\n[b]\nx = 2\n', "b x", (6, 1)),
        ("a = '''\n'\n[b]\nx = 1'''''\n[b]\nx = 2\n", "b x", (6, 1)),
        ("'ü' = 1 # ü\n'ü ü' = { 'ü' = 2 }\n", "ü_ü ü", (2, 11)),
        ("a = 1979-05-27 07:32:00 # [b]\nb = [inf, -1]\n", "b 1", (2, 11)),
    ],
)
def test_the_place_is_that_of_the_key_itself(text: str, keys: str, expected: tuple[int, int], tmp_path: Path) -> None:
    way = [int(key) if key.isdigit() else key.replace("_", " ") for key in keys.split()]
    assert place(tmp_path, text, *way) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("plugins", "policy", "config", "deny"), (3, 3)),
        (("plugins", "policy", "mode"), (2, 10)),
        (("plugins", "policy", "hooks", 0, "phase"), (4, 10)),
        (("plugins", "policy", "hooks", 7, "events"), (4, 1)),
        (("plugins", "pii"), (2, 2)),
        (("servers",), (None, None)),
        ((), (None, None)),
    ],
)
def test_a_missing_key_has_the_place_of_what_is_around_it(
    keys: Keys, expected: tuple[int | None, int | None], tmp_path: Path
) -> None:
    text = "\n[plugins.policy]\n  config = {}\nhooks = [{ events = [] }]\n"
    assert place(tmp_path, text, *keys) == expected


def test_a_byte_order_mark_is_no_column(tmp_path: Path) -> None:
    assert place(tmp_path, "\ufeff[a]\nb = 1".encode(), "a") == (1, 2)


def test_line_ends_of_windows_and_tabs_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    assert place(tmp_path, b"a = '''\r\n\r\n'''\r\n\tb = 1\r\n", "b") == (4, 2)


def test_a_carriage_return_alone_ends_no_line_and_is_refused(tmp_path: Path) -> None:
    # An editor may show what is behind it as a line of its own; TOML has it in the comment.
    with pytest.raises(ConfigError, match=r"midspan\.toml:1:"):
        place(tmp_path, b"# off:\renabled = true\n", "enabled")
