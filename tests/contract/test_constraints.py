"""`constraints.txt` pins what the tests run with, and uv applies the same pins."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = [line for line in LINES if line and not line.startswith("#")]


def test_uv_is_told_the_same_pins() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]
    assert tool["constraint-dependencies"] == PINS


def test_pins_are_names_and_exact_versions_sorted_and_nothing_else() -> None:
    assert [pin for pin in PINS if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*==[0-9][0-9A-Za-z.+!-]*( ; .+)?", pin)] == []
    assert len({pin.partition("==")[0] for pin in PINS}) == len(PINS)
    assert sorted(PINS) == PINS


def test_no_file_that_records_index_addresses_is_tracked() -> None:
    assert "uv.lock" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
