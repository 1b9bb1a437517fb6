"""The nearest plugin manager, for comparison: ten plugins that do nothing, as its own documentation sets them up."""

# cpex has no type information; nothing here is part of midspan.
# pyright: basic, reportMissingImports=false, reportMissingTypeStubs=false
from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cpex.framework import (
    GlobalContext,
    Plugin,
    PluginContext,
    PluginManager,
    ToolHookType,
    ToolPreInvokePayload,
    ToolPreInvokeResult,
)

PLUGIN = """\
  - name: "noop{number}"
    kind: "cpex_peer.NoOp"
    hooks: ["tool_pre_invoke"]
    mode: "{mode}"
    priority: {number}
"""


class NoOp(Plugin):
    """Does nothing."""

    async def tool_pre_invoke(self, payload: ToolPreInvokePayload, context: PluginContext) -> ToolPreInvokeResult:
        """Let it pass."""
        return ToolPreInvokeResult()


async def ten_no_op_plugins(payload: dict[str, Any]) -> Callable[[], Awaitable[object]]:
    """Return what runs five concurrent and five sequential plugins on such a payload."""
    with tempfile.TemporaryDirectory() as folder:
        manager = PluginManager(_write_config(Path(folder, "plugins.yaml")))
        await manager.initialize()
    tool = ToolPreInvokePayload(name=payload["name"], args=payload["arguments"])

    async def call() -> object:
        result, _ = await manager.invoke_hook(
            ToolHookType.TOOL_PRE_INVOKE, payload=tool, global_context=GlobalContext(request_id="1")
        )
        if not result.continue_processing:
            raise RuntimeError("a plugin that does nothing blocked")
        return result

    return call


def _write_config(file: Path) -> str:
    modes = ["concurrent"] * 5 + ["sequential"] * 5
    plugins = "".join(PLUGIN.format(number=number, mode=mode) for number, mode in enumerate(modes))
    file.write_text(f"plugins:\n{plugins}")
    return str(file)
