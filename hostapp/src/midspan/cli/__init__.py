"""The command `midspan`.

Importing this module imports click and nothing heavier; each sub-command is imported when it is invoked.
"""

from __future__ import annotations

from midspan.cli._group import main

__all__ = ["main"]
