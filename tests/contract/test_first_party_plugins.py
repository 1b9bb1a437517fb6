"""Every first-party plugin passes the conformance check that authors get."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from midspan_sdk.testing import check_plugin

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml"))


def config_of(plugin: str, folder: Path) -> dict[str, Any]:
    """Return a config with which the plugin does its main job; a plugin without an entry runs on its defaults."""
    configs: dict[str, dict[str, Any]] = {
        "audit": {"path": str(folder / "audit.jsonl")},
        "policy": {"allow": ["read_*", "echo"], "deny": ["*delete*"]},
    }
    return configs.get(plugin, {})


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_first_party_plugin_conforms(plugin: str, tmp_path: Path) -> None:
    module = importlib.import_module(f"midspan_{plugin.replace('-', '_')}")
    check_plugin(module, config=config_of(plugin, tmp_path), instance=plugin)
