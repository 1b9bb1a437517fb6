from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midspan.config._sizes import size
from midspan.config._values import expand, variables

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
PLAIN = st.text(st.characters(exclude_characters="$}"))
FORM = r"^must have \{NAME\} or \{NAME:-default\} behind a `\$`; write `\$\$` for the character itself$"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("a}b{c", "a}b{c"),
        ("${A}", "1"),
        ("x${A}y${A}z", "x1y1z"),
        ("${E}", ""),
        ("${E:-d}", "d"),
        ("${N:-}", ""),
        ("${N:-a$$b:-c}", "a$b:-c"),
        ("${A:-d}", "1"),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$${A}", "$1"),
        ("${R}", "${A}$"),
    ],
)
def test_a_variable_is_replaced_by_what_it_holds_once(text: str, value: str) -> None:
    assert expand(text, {"A": "1", "E": "", "R": "${A}$"}) == value


@pytest.mark.parametrize(
    "text", ["$", "a$b", "$A", "${", "${A", "${}", "${A B}", "${1}", "${A-b}", "${A:b}", "${A:-${B}}", "$$$", "${Ä}"]
)
def test_a_dollar_that_is_neither_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=FORM):
        expand(text, {"A": "1", "B": "2"})
    with pytest.raises(ValueError, match=FORM):
        variables(text)


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(ValueError, match=r"^needs the environment variable B, which is not set; ") as caught:
        expand("secret${A}${B}", {"A": "secret"})
    assert "secret" not in str(caught.value)


@given(st.text())
def test_any_text_can_be_written_with_its_dollars_doubled(text: str) -> None:
    assert expand(text.replace("$", "$$"), {}) == text
    assert variables(text.replace("$", "$$")) == []


@given(st.dictionaries(NAMES, st.text()), st.data())
def test_a_text_of_pieces_becomes_the_pieces_values(environ: dict[str, str], data: st.DataObject) -> None:
    plain = PLAIN.map(lambda text: (text, text))
    pieces = [plain, st.just(("$$", "$")), st.tuples(NAMES, PLAIN).map(lambda pair: with_default(*pair, environ))]
    if environ:
        pieces.append(st.sampled_from(sorted(environ)).map(lambda name: (f"${{{name}}}", environ[name])))
    drawn = data.draw(st.lists(st.one_of(pieces)))
    assert expand("".join(written for written, _ in drawn), environ) == "".join(value for _, value in drawn)


def with_default(name: str, default: str, environ: dict[str, str]) -> tuple[str, str]:
    return f"${{{name}:-{default}}}", environ.get(name) or default


@given(st.text("${}:-AB "), st.dictionaries(st.sampled_from(["A", "B"]), st.just("value")))
def test_whatever_is_written_it_is_expanded_or_refused_in_one_line(text: str, environ: dict[str, str]) -> None:
    outcome = expanded(text, environ)
    if isinstance(outcome, ValueError):
        assert "value" not in str(outcome)
        assert "\n" not in str(outcome)
    else:
        assert variables(text) or outcome == text.replace("$$", "$")


def expanded(text: str, environ: dict[str, str]) -> str | ValueError:
    try:
        return expand(text, environ)
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        (65536, 65536),
        ("1B", 1),
        ("512KiB", 512 * 1024),
        ("1MiB", 1024**2),
        ("1.5 MiB", 3 * 512 * 1024),
        ("2GiB", 2 * 1024**3),
        ("10kB", 10_000),
        ("10KB", 10_000),
        (" 10MB ", 10_000_000),
        ("1GB", 10**9),
    ],
)
def test_a_size_is_whole_bytes(value: object, expected: int) -> None:
    assert size(value) == expected


@pytest.mark.parametrize(
    "value",
    ["", "5", "MiB", "-1B", "1 mb", "1Mb", "1M", "1kib", "1e3B", "0B", "0.1B", "١B", 0, -1, 0.5, True, None, []],
)
def test_anything_else_is_no_size(value: object) -> None:
    with pytest.raises(ValueError, match=r"^must be "):
        size(value)
