from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from midspan.config import PluginTable
from midspan.errors import PluginError
from midspan.plugins import PluginInfo, Selection, State, owner_of, select

ON = PluginTable(enabled=True)
OFF = PluginTable(enabled=False)


def plugin(name: str, distribution: str | None = None, **fields: object) -> PluginInfo:
    info = PluginInfo(id=name, distribution=distribution or f"midspan-{name}", version="1.0", value=f"midspan_{name}")
    state: State = fields.get("state", "available")  # pyright: ignore[reportAssignmentType] - a test's word
    reason = fields.get("reason")
    return info.in_state(state, str(reason) if reason else None)


INSTALLED = (plugin("audit"), plugin("pii"), plugin("policy"))


def names(selection: Selection) -> list[tuple[str, str]]:
    return [(instance.name, instance.plugin.id) for instance in selection.instances]


def states(selection: Selection) -> dict[str, str]:
    return {info.id: info.state for info in selection.plugins}


def problems(selection: Selection) -> list[str]:
    return [str(problem) for problem in selection.all_problems]


def test_installed_is_not_enabled() -> None:
    selection = select(INSTALLED, {})
    assert selection.instances == selection.all_problems == ()
    assert set(states(selection).values()) == {"available"}


def test_a_table_enables_only_when_it_says_so() -> None:
    selection = select(INSTALLED, {"pii": ON, "policy": OFF, "audit": PluginTable()})
    assert names(selection) == [("pii", "pii")]
    assert states(selection) == {"audit": "disabled", "pii": "enabled", "policy": "disabled"}


def test_a_table_that_does_not_say_whether_it_is_on_is_told_of() -> None:
    selection = select(INSTALLED, {"audit": PluginTable(), "policy": OFF})
    assert selection.warnings == ("[plugins.audit] does not say `enabled = true`: it is off",)


def test_plugin_enables_for_one_run_with_or_without_a_table() -> None:
    selection = select(INSTALLED, {"policy": OFF}, enable=["policy", "pii"])
    assert names(selection) == [("policy", "policy"), ("pii", "pii")]
    assert selection.warnings == ()


def test_several_tables_can_run_one_plugin() -> None:
    tables = {"prod": PluginTable(enabled=True, use="policy"), "dev": PluginTable(enabled=True, use="policy")}
    selection = select(INSTALLED, tables)
    assert names(selection) == [("prod", "policy"), ("dev", "policy")]
    (policy,) = [info for info in selection.plugins if info.id == "policy"]
    assert (policy.state, policy.reason) == ("enabled", "as prod, dev")


def test_plugin_with_an_id_that_only_other_tables_use_enables_those_tables() -> None:
    # An instance with an empty config would be a guard that the operator never wrote.
    tables = {"prod": PluginTable(use="policy"), "dev": PluginTable(enabled=False, use="policy")}
    assert names(select(INSTALLED, tables, enable=["policy"])) == [("prod", "policy"), ("dev", "policy")]


def test_plugin_with_the_name_of_a_table_enables_just_that_table() -> None:
    tables = {"policy": OFF, "prod": PluginTable(enabled=False, use="policy")}
    assert names(select(INSTALLED, tables, enable=["policy"])) == [("policy", "policy")]
    assert names(select(INSTALLED, tables, enable=["prod"])) == [("prod", "policy")]


def test_no_plugin_wins_over_everything() -> None:
    tables = {"pii": ON, "prod": PluginTable(enabled=True, use="policy")}
    selection = select(INSTALLED, tables, enable=["pii", "policy"], block=["pii", "policy"])
    assert selection.instances == selection.all_problems == ()
    assert states(selection) == {"audit": "available", "pii": "blocked", "policy": "blocked"}


def test_no_plugin_with_the_name_of_a_table_blocks_that_instance_only() -> None:
    tables = {"prod": PluginTable(enabled=True, use="policy"), "dev": PluginTable(enabled=True, use="policy")}
    selection = select(INSTALLED, tables, block=["prod"])
    assert names(selection) == [("dev", "policy")]
    assert states(selection)["policy"] == "enabled"


def test_no_plugin_lets_a_start_go_on_without_a_plugin_that_is_gone() -> None:
    selection = select(INSTALLED, {"gone": ON}, block=["gone"])
    assert selection.all_problems == ()


def test_a_mistyped_no_plugin_stops_the_start() -> None:
    assert problems(select(INSTALLED, {"pii": ON}, block=["pi"])) == [
        "--no-plugin pi: no plugin has that name; did you mean 'pii'?"
    ]


@pytest.mark.parametrize("tables", [{"polcy": ON}, {"prod": PluginTable(enabled=True, use="polcy")}])
def test_an_enabled_plugin_that_is_not_installed_stops_the_start_and_names_the_nearest(
    tables: dict[str, PluginTable],
) -> None:
    (problem,) = select(INSTALLED, tables).all_problems
    assert str(problem).startswith("plugin 'polcy': no installed plugin has this id; did you mean 'policy'?")


def test_where_no_name_is_near_the_error_says_what_to_install_and_how_to_go_on() -> None:
    (problem,) = problems(select(INSTALLED, {"quota": ON}))
    assert "`midspan plugins install midspan-quota` if there is such a package" in problem
    assert "to start without it: --no-plugin quota, or `enabled = false` in [plugins.quota]" in problem


def test_a_table_of_an_uninstalled_plugin_that_is_off_harms_nothing() -> None:
    assert select(INSTALLED, {"gone": OFF}).all_problems == ()


@pytest.mark.parametrize("state", ["incompatible", "broken"])
def test_an_enabled_plugin_that_cannot_be_loaded_stops_the_start(state: str) -> None:
    installed = [plugin("pii", state=state, reason="a reason")]
    (problem,) = select(installed, {"pii": ON}).all_problems
    assert isinstance(problem, PluginError)
    assert (problem.plugin, problem.distribution, problem.version) == ("pii", "midspan-pii", "1.0")
    assert str(problem).startswith("plugin 'pii' (midspan-pii 1.0): a reason (to start without it: --no-plugin pii")


@pytest.mark.parametrize("state", ["incompatible", "broken"])
def test_an_available_plugin_that_cannot_be_loaded_harms_nothing(state: str) -> None:
    selection = select([*INSTALLED, plugin("old", state=state)], {"pii": ON})
    assert selection.all_problems == ()
    assert states(selection)["old"] == state


TWO = (plugin("pii", "midspan-pii"), plugin("pii", "other-pii"), plugin("policy"))


def test_two_distributions_with_one_id_stop_the_start_and_both_are_named() -> None:
    (problem,) = problems(select(TWO, {"pii": ON}))
    assert problem.startswith("plugin 'pii': midspan-pii 1.0 and other-pii 1.0 bring the same id; uninstall one")
    assert '`distribution = "midspan-pii"` in [plugins.pii]' in problem


def test_two_distributions_with_one_id_that_nobody_enabled_harm_nothing() -> None:
    selection = select(TWO, {"policy": ON})
    assert selection.all_problems == ()
    assert [info.state for info in selection.plugins] == ["duplicate", "duplicate", "enabled"]


@pytest.mark.parametrize("spelling", ["midspan-pii", "Midspan_PII"])
def test_a_pin_chooses_the_owner_of_an_id(spelling: str) -> None:
    selection = select(TWO, {"pii": PluginTable(enabled=True, distribution=spelling)})
    assert [instance.plugin.distribution for instance in selection.instances] == ["midspan-pii"]
    assert [(info.distribution, info.state) for info in selection.plugins[:2]] == [
        ("midspan-pii", "enabled"),
        ("other-pii", "duplicate"),
    ]


def test_a_pin_holds_for_every_table_of_the_plugin() -> None:
    tables = {"pii": PluginTable(distribution="other-pii"), "prod": PluginTable(enabled=True, use="pii")}
    assert [one.plugin.distribution for one in select(TWO, tables).instances] == ["other-pii"]


def test_an_id_owned_by_another_distribution_than_the_pinned_one_stops_the_start() -> None:
    selection = select([plugin("pii", "evil-pii")], {"pii": PluginTable(enabled=True, distribution="midspan-pii")})
    assert selection.instances == ()
    (problem,) = problems(selection)
    assert problem.startswith("plugin 'pii': the config pins it to midspan-pii, but it is brought by evil-pii 1.0")
    assert selection.plugins[0].state == "duplicate"


def test_two_pins_of_one_id_contradict_each_other() -> None:
    tables = {
        "pii": PluginTable(enabled=True, distribution="midspan-pii"),
        "prod": PluginTable(enabled=True, use="pii", distribution="other-pii"),
    }
    refused = problems(select(TWO, tables))
    assert len(refused) == 2
    assert all("the config pins it to midspan-pii and to other-pii; pin it once" in problem for problem in refused)


def test_an_id_declared_twice_by_one_distribution_is_its_authors_to_mend() -> None:
    (problem,) = problems(select([plugin("pii"), plugin("pii")], {"pii": ON}))
    assert problem.startswith("plugin 'pii': midspan-pii 1.0 declares this id 2 times; its author has to choose one")


def test_the_owner_of_an_id_is_found_without_enabling_it() -> None:
    assert owner_of(INSTALLED, {}, "pii").distribution == "midspan-pii"
    with pytest.raises(PluginError, match="did you mean 'pii'"):
        owner_of(INSTALLED, {}, "pi")


def test_a_plugin_file_is_left_out_where_it_is_named() -> None:
    file = PluginInfo(id="no-rm", value="no_rm.py", file=Path("no_rm.py")).in_state("broken", "a reason")
    found: Sequence[PluginInfo] = [*INSTALLED, file]
    assert names(select([*INSTALLED, file.in_state("available")], {}, enable=["no-rm"])) == [("no-rm", "no-rm")]
    assert "no-rm" in problems(select(found, {}, enable=["no-rm"]))[0]
