"""Allow and deny MCP tools by glob, with listings filtered to match: a midspan plugin.

The entry point names this module; the host finds the hooks in it. `midspan_interceptors(config=...)` may also be
called by whoever builds a chain without the host: what it returns is bound to the config.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from midspan_policy._checks import find_problems
from midspan_policy._config import PolicyConfig
from midspan_policy._interceptors import build
from midspan_sdk import ChainEntry, Interceptor, Problem, hookimpl

__all__ = ["PolicyConfig", "midspan_checks", "midspan_config", "midspan_interceptors"]


@hookimpl
def midspan_config() -> type[PolicyConfig]:
    """Name the config model."""
    return PolicyConfig


@hookimpl
def midspan_interceptors(config: PolicyConfig) -> Sequence[Interceptor[..., Any]]:
    """Contribute `call`, which enforces the policy on `tools/call`, and `listing`, which filters `tools/list`."""
    return build(config)


@hookimpl
def midspan_checks(config: PolicyConfig, entries: Sequence[ChainEntry]) -> Sequence[Problem]:
    """Find overrides that keep the policy from being enforced, and patterns that hardly mean what they say."""
    return find_problems(config, entries)
