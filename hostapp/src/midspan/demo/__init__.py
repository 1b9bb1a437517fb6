"""The demo: a real client, a real server, and the real gateway between them. No network, no config, nothing left behind."""

from midspan.demo._scenes import Scene, play
from midspan.demo._show import show

__all__ = ["Scene", "play", "show"]
