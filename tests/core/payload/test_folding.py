"""Folding, and the way back."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from midspan_sdk.payload import fold, replace_spans

# The machine may be busy; what these tests are about is no matter of time.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("plain", "plain"),
        ("ＡＫＩＡ１２３", "AKIA123"),
        ("a\u200bb\u00adc\ufeffd\u2060e\U000e0041f", "abcdef"),
        ("①②③", "123"),
        ("𝐬𝐞𝐜𝐫𝐞𝐭", "secret"),
        ("e\u0301", "é"),
        ("ﬁne", "fine"),
        ("日本語 ok", "日本語 ok"),
        ("", ""),
    ],
)
def test_a_text_is_folded_to_what_it_reads_as(text: str, folded: str):
    assert fold(text).text == folded
    assert fold(text).original == text


def test_ascii_is_itself():
    text = "a" * 10
    assert fold(text).text is text


@pytest.mark.parametrize(
    ("text", "needle", "span"),
    [
        ("x ＡＢ y", "AB", (2, 4)),
        ("x A\u200bB y", "AB", (2, 5)),
        ("x\u200bAB\u200b y", "AB", (2, 4)),
        ("ﷺ AB", "AB", (2, 4)),
        ("ﬁne", "i", (0, 1)),
        ("e\u0301e\u0301AB", "AB", (4, 6)),
        ("é" * 9000 + "ＡＢ", "AB", (9000, 9002)),
        ("A" * 9000 + "ＡB\u200d", "AB", (9000, 9002)),
    ],
)
def test_a_span_is_mapped_back(text: str, needle: str, span: tuple[int, int]):
    folded = fold(text)
    start = folded.text.rindex(needle) if needle == "AB" and len(text) > 100 else folded.text.index(needle)
    assert folded.original_span(start, start + len(needle)) == span


def test_an_empty_span_is_a_place():
    folded = fold("é\u200bx")
    assert folded.original_span(0, 0) == (0, 0)
    assert folded.original_span(2, 2) == (3, 3)


@pytest.mark.parametrize("span", [(-1, 1), (0, 4), (2, 1)])
def test_a_span_outside_of_the_text_is_refused(span: tuple[int, int]):
    with pytest.raises(ValueError, match="no span"):
        fold("abé").original_span(*span)


ODD = st.text(st.sampled_from("aAé ＡﬁﷺßİＡ①\u0301\u0315\u200b\ufeff\u1161\uac00\ud800😀"), max_size=80)


@given(ODD | st.text())
@example("a" + "\u0315\u0300" * 40)
@example("é" * 4095 + "e" + "\u0301" * 3)
@UNHURRIED
def test_what_a_span_maps_back_to_folds_to_it(text: str):
    folded = fold(text)
    spans = [folded.original_span(index, index + 1) for index in range(len(folded.text))]
    pieces = sorted(set(spans))
    assert sorted(spans) == spans
    assert all(end <= start for (_, end), (start, _) in pairwise(pieces))
    assert "".join(fold(text[start:end]).text for start, end in pieces) == folded.text


@given(st.text(st.characters(exclude_categories=["Cf", "Mn", "Mc", "Me", "Lo", "Cs", "Cn"])))
@UNHURRIED
def test_without_marks_and_invisible_characters_it_is_nfkc_by_character(text: str):
    assert fold(text).text == "".join(unicodedata.normalize("NFKC", character) for character in text)


@given(st.text(st.characters(categories=["Lu", "Ll", "Nd", "Mn", "Zs"]), max_size=30))
@UNHURRIED
def test_marks_within_reason_fold_as_in_nfkc(text: str):
    invisible = {"\u034f", *map(chr, range(0x180B, 0x1810)), *map(chr, range(0xFE00, 0xFE10))}
    invisible |= {"\u17b4", "\u17b5", *map(chr, range(0xE0100, 0xE01F0))}
    plain = "".join(character for character in text if character not in invisible)
    assert fold(plain).text == unicodedata.normalize("NFKC", plain)


@given(st.text(), st.data())
@settings(UNHURRIED, max_examples=50)
def test_replacing_a_finding_leaves_the_rest_as_it_was(text: str, data: st.DataObject):
    folded = fold(text)
    start = data.draw(st.integers(0, len(folded.text)))
    end = data.draw(st.integers(start, len(folded.text)))
    first, last = folded.original_span(start, end)
    assert replace_spans(text, [(first, last, "X")]) == text[:first] + "X" + text[last:]


def test_overlapping_spans_are_refused():
    with pytest.raises(ValueError, match="in order"):
        replace_spans("abcdef", [(0, 3, "x"), (2, 4, "y")])
    with pytest.raises(ValueError, match="within"):
        replace_spans("abc", [(0, 4, "x")])


def test_replacing_nothing_returns_the_text():
    text = "as it is"
    assert replace_spans(text, []) is text
