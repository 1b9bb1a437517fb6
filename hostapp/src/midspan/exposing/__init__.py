"""The gateway's own interceptors, served to its clients: beside the relay, which knows nothing of it.

A judge around the judge of a conversation answers `interceptors/list` and `interceptor/invoke`, which never reach the
server, and adds the capability to what the server says of itself. Nothing here imports the MCP SDK.
"""

from midspan.exposing._exposure import MAX_INVOCATIONS, Exposure
from midspan.exposing._judge import ExposingJudge, InnerJudge

__all__ = ["MAX_INVOCATIONS", "ExposingJudge", "Exposure", "InnerJudge"]
