"""The demo: a real client, a real server, and the real gateway between them.

No network, no config, nothing left behind. `play` plays it, `show` prints it, `server` is the server's process.
"""
