"""The README's examples are real."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

import midspan_audit
from midspan_audit import AuditConfig

README = Path(__file__).parents[3] / "plugins" / "audit" / "README.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_config_example_is_accepted() -> None:
    table = tomllib.loads(block("toml"))["plugins"]["audit"]["config"]
    assert AuditConfig.model_validate(table).path.is_absolute()


def test_the_config_table_lists_every_key() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", README.read_text("utf-8").partition("## A record")[0], re.MULTILINE)
    assert listed == list(AuditConfig.model_fields)


def test_the_example_records_are_a_whole_chain_in_the_order_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_text(block("jsonl"))
    (command,) = midspan_audit.midspan_commands()
    assert command.run([str(log)]) == 0, capsys.readouterr().out
    table = README.read_text("utf-8").partition("Keys always come")[2]
    documented = [
        key for cell in re.findall(r"^\| ((?:`\w+`,? ?)+)\|", table, re.MULTILINE) for key in re.findall(r"\w+", cell)
    ]
    for line in log.read_text().splitlines():
        keys = list(json.loads(line))
        assert keys == [key for key in documented if key in keys]
        assert set(keys) <= set(documented)
