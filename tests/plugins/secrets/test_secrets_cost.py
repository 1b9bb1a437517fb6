"""Hostile text, 1 MiB of it, for every detector. A square would take minutes."""

from __future__ import annotations

from time import process_time

import pytest

from midspan_secrets import KINDS, Scanner
from tests.plugins.secrets.corpus import MAKERS, Maker

MIB = 1 << 20
BEGIN = "-----BEGIN PRIVATE KEY-----\n"

BEGINNINGS: dict[str, list[str]] = {
    **{kind: [makers[0](Maker("cost"))[:8]] for kind, makers in MAKERS.items()},
    "aws-secret-access-key": ["secret_key=", "AK" + "IA5MZXN8QRF3WBY6OE "],
    "azure-storage-key": ["AccountKey="],
    "slack-webhook": ["hooks.slack.com/services/"],
    "jwt": ["eyJ", "-eyJ", Maker("cost").jwt().partition(".")[0] + ".", Maker("cost").jwt().partition(".")[0] + ".."],
    "private-key": [
        BEGIN,
        BEGIN + "MIIE" * 4 + "\n",
        BEGIN + "A: b\n",
        "-----BEGIN",
        "MIIEpAIBAAKC ",
        "IBAAKC",
    ],
}


def seconds(kind: str, text: str) -> float:
    scanner = Scanner([kind])
    started = process_time()
    scanner.find(text)
    return process_time() - started


def test_every_kind_is_tried():
    assert set(BEGINNINGS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mebibyte_of_beginnings_takes_no_square(kind: str):
    for beginning in BEGINNINGS[kind]:
        for unit in (beginning, beginning + "-A1b", beginning + " "):
            assert seconds(kind, unit * (MIB // len(unit))) < 3, unit


@pytest.mark.parametrize("kind", KINDS)
def test_one_beginning_and_a_mebibyte_of_what_may_follow_takes_no_square(kind: str):
    for beginning in BEGINNINGS[kind]:
        for filler in ("A1b", "\n", "-"):
            assert seconds(kind, beginning + filler * (MIB // len(filler))) < 3, (beginning, filler)


def test_a_mebibyte_of_full_width_beginnings_takes_no_square():
    text = "ＡＫＩＡ" * (MIB // 4)
    started = process_time()
    Scanner(KINDS).find(text)
    assert process_time() - started < 4
