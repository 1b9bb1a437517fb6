"""What midspan writes on stderr while it runs: lines of text for people, or of JSON for programs.

Needs the standard library only, unless JSON is asked for.
"""

from midspan.logs._configuring import FORMATS, LEVELS, LogFormat, LogLevel, configure, emit, writes_json
from midspan.logs._filtering import PluginNames

__all__ = ["FORMATS", "LEVELS", "LogFormat", "LogLevel", "PluginNames", "configure", "emit", "writes_json"]
