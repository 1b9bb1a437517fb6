"""The hooks of the plugin; the entry point names this module."""

from collections.abc import Sequence
from typing import Any

from midspan_acme_shell._config import ShellConfig
from midspan_acme_shell._interceptors import forbidden_command, hide_hosts
from midspan_sdk import Interceptor, hookimpl

__all__ = ["ShellConfig", "midspan_config", "midspan_interceptors"]


@hookimpl
def midspan_config() -> type[ShellConfig]:
    """Name the config model."""
    return ShellConfig


@hookimpl
def midspan_interceptors() -> Sequence[Interceptor[..., Any]]:
    """Contribute both interceptors."""
    return [forbidden_command, hide_hosts]
