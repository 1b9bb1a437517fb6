from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize(
    "module", ["midspan", "midspan.config", "midspan.plugins", "midspan.http", "midspan.errors", "midspan.cli"]
)
def test_every_public_name_is_there_whether_light_or_imported_on_first_use(module: str) -> None:
    imported = importlib.import_module(module)
    assert imported.__all__ == sorted(imported.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    for name in imported.__all__:
        assert getattr(imported, name) is not None
    for name, private in getattr(imported, "_HEAVY", {}).items():
        assert name in imported.__all__
        assert getattr(imported, name) is getattr(importlib.import_module(f"{module}.{private}"), name)


def test_a_name_that_is_none_of_them_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'midspan\.plugins' has no attribute 'nothing'"):
        importlib.import_module("midspan.plugins").nothing  # noqa: B018 - the access is what fails
