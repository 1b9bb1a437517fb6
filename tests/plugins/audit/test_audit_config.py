"""The config model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import midspan_audit
from midspan_audit import AuditConfig


def test_the_plugin_names_its_config_model() -> None:
    assert midspan_audit.midspan_config() is AuditConfig


def test_a_tilde_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert AuditConfig.model_validate({"path": "~/audit.jsonl"}).path == Path("/home/ada/audit.jsonl")


@pytest.mark.parametrize(
    ("table", "key", "words"),
    [
        ({}, "path", "required"),
        ({"path": "audit.jsonl"}, "path", "absolute"),
        ({"path": "/a\0b"}, "path", "NUL"),
        ({"path": "/a", "events": []}, "events", "at least 1"),
        ({"path": "/a", "events": [""]}, "events", "method name"),
        ({"path": "/a", "events": "*"}, "events", "tuple"),
        ({"path": "/a", "max_field_length": 8}, "max_field_length", "32"),
        ({"path": "/a", "key_file": "key"}, "key_file", "absolute"),
        ({"path": "/a", "rotate": "1MiB"}, "rotate", "not permitted"),
    ],
)
def test_a_table_that_cannot_do_what_it_says_is_refused(table: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        AuditConfig.model_validate(table)
    error = caught.value.errors()[0]
    assert error["loc"][0] == key
    assert words in error["msg"]


def test_building_observers_touches_no_file(tmp_path: Path) -> None:
    config = AuditConfig(path=tmp_path / "logs" / "audit.jsonl")
    (observer,) = midspan_audit.midspan_observers(config, "second")
    assert (observer.name, observer.durable) == ("second", True)
    assert not (tmp_path / "logs").exists()
