"""What is wrong, or hardly meant, in what the operator wrote and installed: found before anything runs.

Each module has one kind of finding. `chain_notes` and `config_notes` are cheap and are told at every start too; `check`
finds everything there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midspan._lazy import lazily
from midspan.checking._hooks import mistyped
from midspan.checking._notes import chain_notes, config_notes

if TYPE_CHECKING:
    from midspan.checking._check import Checked, check, unread
    from midspan.checking._finding import Finding, Severity

__all__ = ["Checked", "Finding", "Severity", "chain_notes", "check", "config_notes", "mistyped", "unread"]

_HEAVY = {"Checked": "_check", "Finding": "_finding", "Severity": "_finding", "check": "_check", "unread": "_check"}

__getattr__ = lazily(__name__, _HEAVY)
