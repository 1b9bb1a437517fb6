"""Redacts provider keys, JWTs and private keys from MCP traffic, both ways: a midspan plugin.

`redact` (a mutator) replaces every secret it finds in text that may be edited. `protected` (a validator) denies a
message with a secret where no mutator may edit: the operation's target, cursors, reserved `_meta`.
"""

from midspan_secrets._config import SecretsConfig
from midspan_secrets._detectors import KINDS
from midspan_secrets._interceptors import midspan_config, midspan_interceptors, protected, redact
from midspan_secrets._scanner import Finding, Scanner

__all__ = [
    "KINDS",
    "Finding",
    "Scanner",
    "SecretsConfig",
    "midspan_config",
    "midspan_interceptors",
    "protected",
    "redact",
]
