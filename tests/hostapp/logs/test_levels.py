"""`midspan.logs`: which records are written, and whose they are said to be."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from midspan.logs import PluginLogs, configure, reset, say

PII = PluginLogs(
    plugin="pii", instance="pii-dev", module="acme_guards.pii", names=frozenset({"pii-dev.redact", "own.name"})
)
RATES = PluginLogs(plugin="rates", instance="rates", module="acme_guards.rates", names=frozenset({"rates.limit"}))
chain = logging.getLogger("midspan.chain")


@pytest.fixture(autouse=True)
def taken_back() -> Iterator[None]:
    """Take the configuration back."""
    yield
    reset()


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written(capsys)]


def test_midspan_and_plugins_write_from_the_level_on_and_libraries_only_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(plugins=[PII])
    for name in ("midspan.relay", "acme_guards.pii._spans", "midspan_plugin_file_x", "aiohttp.client"):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING):
            logging.getLogger(name).log(level, "%d", level)
    assert written(capsys) == [
        "midspan: 20",
        "midspan: warning: 30",
        "midspan: acme_guards.pii._spans: 20",
        "midspan: warning: acme_guards.pii._spans: 30",
        "midspan: midspan_plugin_file_x: 20",
        "midspan: warning: midspan_plugin_file_x: 30",
        "midspan: warning: aiohttp.client: 30",
    ]


def test_a_plugin_s_level_is_that_of_its_loggers_and_of_what_the_host_says_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(level="warning", levels={"pii": "debug", "rates": "error"}, plugins=[PII, RATES])
    chain.debug("redacts", extra={"interceptor": "pii-dev.redact"})
    chain.warning("limits", extra={"interceptor": "rates.limit"})
    chain.error("fails", extra={"interceptor": "rates.limit"})
    chain.info("somebody else's", extra={"interceptor": "other.one"})
    logging.getLogger("acme_guards.pii").debug("own")
    logging.getLogger("acme_guards.rates").warning("own")
    assert written(capsys) == [
        "midspan: debug: redacts",
        "midspan: error: fails",
        "midspan: debug: acme_guards.pii: own",
    ]


def test_a_logger_s_level_is_that_of_those_below_it_unless_a_nearer_one_has_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(level="error", levels={"midspan.chain": "info", "aiohttp": "debug", "aiohttp.client": "error"})
    chain.info("one")
    logging.getLogger("midspan.relay").warning("no")
    logging.getLogger("aiohttp.server").debug("two")
    logging.getLogger("aiohttp.client").warning("no")
    assert written(capsys) == ["midspan: one", "midspan: debug: aiohttp.server: two"]


def test_json_says_plugin_instance_and_interceptor(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json", plugins=[PII, RATES])
    chain.warning("failed", extra={"interceptor": "own.name", "level": "made up", "attempt": 3})
    logging.getLogger("acme_guards.pii").info("own")
    logging.getLogger("acme_guards").info("whose?")
    about, own, shared = records(capsys)
    assert {key: about[key] for key in ("level", "logger", "message", "plugin", "instance", "interceptor")} == {
        "level": "warning",
        "logger": "midspan.chain",
        "message": "failed",
        "plugin": "pii",
        "instance": "pii-dev",
        "interceptor": "own.name",
    }
    assert about["attempt"] == 3
    assert (own["plugin"], own["logger"]) == ("pii", "acme_guards.pii")
    assert "plugin" not in shared


def test_the_last_call_counts_and_reset_takes_all_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = (list(logging.getLogger().handlers), logging.getLogger().level)
    configure("json", level="debug")
    configure("text", level="error")
    chain.warning("no")
    chain.error("one")
    assert written(capsys) == ["midspan: error: one"]
    configure("text", level="debug")
    chain.debug("two")
    assert written(capsys) == ["midspan: debug: two"]
    reset()
    assert (list(logging.getLogger().handlers), logging.getLogger().level) == before


def test_what_the_command_says_is_a_record_too(capsys: pytest.CaptureFixture[str]) -> None:
    say(logging.WARNING, "before")
    configure("json", level="warning")
    say(logging.INFO, "too low")
    say(logging.ERROR, "100% wrong")
    before, after = written(capsys)
    assert before == "midspan: warning: before"
    assert (json.loads(after)["message"], json.loads(after)["level"]) == ("100% wrong", "error")
