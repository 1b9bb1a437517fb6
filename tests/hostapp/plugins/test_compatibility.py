from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from midspan.plugins._compatibility import incompatibility

release = st.lists(st.integers(min_value=0, max_value=12), min_size=1, max_size=4).map(
    lambda parts: ".".join(str(part) for part in parts)
)
bound = st.tuples(st.sampled_from([">=", "<"]), release).map("".join)


@pytest.mark.parametrize(
    "requirement",
    [
        "midspan-sdk<0.2,>=0.1",
        "midspan-sdk>=0.1,<0.2",
        "midspan-sdk",
        "Midspan_SDK >= 0.1 , < 0.2",
        "midspan.sdk (>=0.1,<0.2)",
        "midspan-sdk[mcp]>=0.1",
        "midspan-sdk~=0.1.0",
        "midspan-sdk==0.1.*",
        "midspan-sdk!=0.2; python_version >= '3.11'",
        "midspan-sdk @ file:///somewhere/midspan-sdk",
        # Not for this environment, or not asked for: it does not count.
        "midspan-sdk>=9; python_version < '3'",
        "midspan-sdk>=9; extra == 'next'",
        # Other distributions do not count.
        "midspan-sdk-extras>=9",
        "midspan>=9",
        "not a requirement at all",
    ],
)
def test_a_requirement_that_admits_the_sdk_has_no_reason(requirement: str) -> None:
    assert incompatibility([requirement], "0.1.3") is None


@pytest.mark.parametrize(
    "requirement",
    [
        "midspan-sdk>=0.2",
        "midspan-sdk<0.1",
        "midspan-sdk>=0.1,<0.1.3",
        "midspan_sdk[mcp] (<0.1)",
        "midspan-sdk==0.1.2",
        "midspan-sdk~=0.2",
        "midspan-sdk>=9; python_version >= '3.11'",
    ],
)
def test_a_requirement_that_does_not_admit_it_is_the_reason(requirement: str) -> None:
    assert incompatibility(["click", requirement], "0.1.3") == f"requires {requirement}; midspan-sdk 0.1.3 is installed"


def test_each_requirement_on_the_sdk_has_to_admit_it() -> None:
    assert incompatibility(["midspan-sdk>=0.1", "midspan-sdk<0.1"], "0.1.0") is not None


def test_a_requirement_that_cannot_be_read_is_a_reason() -> None:
    reason = incompatibility(["midspan-sdk ><! 3"], "0.1.0")
    assert reason == "its requirement 'midspan-sdk ><! 3' cannot be read"


def test_an_sdk_of_unknown_version_is_not_admitted() -> None:
    assert "not known" in (incompatibility(["midspan-sdk"], None) or "")


@pytest.mark.parametrize(
    ("version", "admitted"), [("0.2.0rc1", False), ("0.1.5.dev3", True), ("0.1.0+local", True), ("0.1.0a1", False)]
)
def test_versions_that_are_no_plain_releases_compare_as_packaging_compares_them(version: str, admitted: bool) -> None:
    assert (incompatibility(["midspan-sdk>=0.1,<0.2"], version) is None) is admitted


@given(st.lists(bound, min_size=1, max_size=3), release)
def test_the_plain_form_decides_as_packaging_does(bounds: list[str], version: str) -> None:
    expected = SpecifierSet(",".join(bounds)).contains(version, prereleases=True)
    assert (incompatibility(["midspan-sdk" + ",".join(bounds)], version) is None) is expected


def test_the_plain_form_needs_no_packaging(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in sys.modules makes the import fail.
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    assert incompatibility(["midspan-sdk<0.2,>=0.1"], "0.1.0") is None
    assert incompatibility(["midspan-sdk<0.2,>=0.1"], "0.2.0") is not None
    with pytest.raises(ImportError):
        incompatibility(["midspan-sdk~=0.1"], "0.1.0")
