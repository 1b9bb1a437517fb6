"""What the config's `requires` is checked against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from midspan.installing import unmet_requirements

Install = Callable[..., Path]


@pytest.fixture(autouse=True)
def installed(fake_distribution: Install) -> Path:
    fake_distribution("midspan-acme-pii", version="0.2")
    fake_distribution("midspan-acme-beta", version="1.0rc1")
    return fake_distribution("midspan-acme-odd", version="as of today")


@pytest.mark.parametrize(
    "requirement",
    [
        "midspan-acme-pii",
        "midspan-acme-pii>=0.2,<1",
        "Midspan_Acme.PII==0.2.0",
        "midspan-acme-pii[models]>=0.2",
        "midspan-acme-pii @ https://files.example/pii.whl",
        "midspan-acme-beta>=1.0rc1",
        "midspan-acme-beta>=0.9",
        "midspan-acme-odd",
        'midspan-acme-missing; python_version < "3"',
        'midspan-acme-missing; extra == "more"',
    ],
)
def test_a_requirement_is_met_by_what_is_installed(requirement: str) -> None:
    assert unmet_requirements([requirement]) == []


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        (
            "midspan-acme-missing>=1",
            "midspan-acme-missing is not installed; run: midspan plugins install 'midspan-acme-missing>=1'",
        ),
        (
            "midspan-acme-missing",
            "midspan-acme-missing is not installed; run: midspan plugins install midspan-acme-missing",
        ),
        (
            "midspan-acme-pii>=0.3",
            "midspan-acme-pii 0.2 is installed, which is not >=0.3; "
            "run: midspan plugins install 'midspan-acme-pii>=0.3'",
        ),
        (
            "midspan-acme-beta>=1.0",
            "midspan-acme-beta 1.0rc1 is installed, which is not >=1.0; "
            "run: midspan plugins install 'midspan-acme-beta>=1.0'",
        ),
        (
            "midspan-acme-odd>1",
            "midspan-acme-odd as of today is installed, which is not >1; "
            "run: midspan plugins install 'midspan-acme-odd>1'",
        ),
        ("midspan >== 1", "'midspan >== 1' is not a requirement, such as \"midspan-pii>=0.2\""),
        ("", "'' is not a requirement, such as \"midspan-pii>=0.2\""),
    ],
)
def test_a_requirement_that_is_not_met_is_told_in_one_sentence_with_what_to_do(requirement: str, problem: str) -> None:
    (unmet,) = unmet_requirements([requirement])
    assert (unmet.requirement, unmet.problem) == (requirement, problem)


def test_of_midspan_itself_the_sentence_does_not_name_a_command_that_would_refuse_it() -> None:
    (unmet,) = unmet_requirements(["midspan-sdk>=99"])
    assert unmet.problem.endswith("which is not >=99; upgrade midspan with the tool that installed it")


def test_a_distribution_with_damaged_metadata_is_not_installed(installed: Path) -> None:
    (installed / "midspan_acme_pii-0.2.dist-info" / "METADATA").unlink()
    (unmet,) = unmet_requirements(["midspan-acme-pii"])
    assert unmet.problem.startswith("midspan-acme-pii is not installed")


def test_each_unmet_requirement_is_found_with_its_place() -> None:
    unmet = unmet_requirements(["midspan-acme-missing", "midspan-acme-pii", "midspan-acme-pii>1"])
    assert [(one.index, one.requirement) for one in unmet] == [(0, "midspan-acme-missing"), (2, "midspan-acme-pii>1")]
