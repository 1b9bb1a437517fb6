from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from midspan.plugins import PluginInfo, discover

Install = Callable[..., Path]


def found(plugin: str) -> list[PluginInfo]:
    return [info for info in discover() if info.id == plugin]


def test_a_plugin_is_found_by_its_metadata_and_not_imported(fake_distribution: Install) -> None:
    fake_distribution(
        "midspan-pii",
        version="1.2",
        plugins={"pii": "fake_pii"},
        modules={"fake_pii": "raise RuntimeError('imported')"},
    )
    assert found("pii") == [
        PluginInfo(id="pii", distribution="midspan-pii", version="1.2", value="fake_pii", state="available")
    ]
    assert "fake_pii" not in sys.modules


def test_the_first_party_plugins_come_through_the_same_door() -> None:
    assert {"audit", "policy", "secrets"} <= {info.id for info in discover() if info.state == "available"}


def test_plugins_are_sorted_by_id_and_distribution(fake_distribution: Install) -> None:
    fake_distribution("zz-one", plugins={"same": "m", "aaa": "m"})
    fake_distribution("aa-two", plugins={"same": "m"})
    ours = [(info.id, info.distribution) for info in discover() if info.distribution in ("zz-one", "aa-two")]
    assert ours == [("aaa", "zz-one"), ("same", "aa-two"), ("same", "zz-one")]


@pytest.mark.parametrize("plugin", ["PII", "1pii", "p_ii", "p.ii", "-pii", "pïi"])
def test_an_id_of_another_form_is_broken(plugin: str, fake_distribution: Install) -> None:
    fake_distribution("midspan-odd", plugins={plugin: "fake_odd"})
    (info,) = [info for info in discover() if info.distribution == "midspan-odd"]
    assert info.state == "broken"
    assert info.reason is not None
    assert "lower-case letters, digits and hyphens" in info.reason


def test_an_entry_point_that_names_no_module_is_broken(fake_distribution: Install) -> None:
    fake_distribution("midspan-odd", plugins={"odd": "not a module"})
    (info,) = found("odd")
    assert (info.state, info.reason) == (
        "broken",
        "its entry point 'not a module' names no module and no object in one",
    )


def test_a_plugin_for_another_sdk_is_incompatible(fake_distribution: Install) -> None:
    fake_distribution("midspan-old", plugins={"old": "fake_old"}, requires=["midspan-sdk<0.1"])
    (info,) = found("old")
    assert info.state == "incompatible"
    assert info.reason is not None
    assert info.reason.startswith("requires midspan-sdk<0.1; midspan-sdk 0.1")


def test_a_distribution_found_twice_counts_once(fake_distribution: Install) -> None:
    fake_distribution("midspan-pii", version="1.0", plugins={"pii": "fake_pii"}, folder="older")
    fake_distribution("Midspan_PII", version="2.0", plugins={"pii": "fake_pii"}, folder="newer")
    # The folder that was added last comes first on the path.
    assert [info.version for info in found("pii")] == ["2.0"]


def test_two_distributions_with_one_id_are_both_found(fake_distribution: Install) -> None:
    fake_distribution("midspan-pii", plugins={"pii": "fake_pii"})
    fake_distribution("other-pii", plugins={"pii": "other_pii"})
    assert [info.distribution for info in found("pii")] == ["midspan-pii", "other-pii"]


@pytest.mark.parametrize("damage", [b"[midspan.plugins]\n\xff\xfe = x\n", b"[midspan.plugins]\nno assignment\n"])
def test_a_damaged_distribution_does_not_hide_the_others(damage: bytes, fake_distribution: Install) -> None:
    site = fake_distribution("midspan-damaged", plugins={"damaged": "x"})
    (site / "midspan_damaged-1.0.dist-info" / "entry_points.txt").write_bytes(damage)
    fake_distribution("midspan-pii", plugins={"pii": "fake_pii"})
    assert len(found("pii")) == 1
    assert found("damaged") == []
