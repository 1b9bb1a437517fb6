"""A stdio server whose pipes another process holds: it hands them over a socket, and lives as long as that is open.

Run as `python -I -S child.py SOCKET`. Hundreds of tests start it, so it imports next to nothing.
"""

from __future__ import annotations

import _socket
import os
import sys

control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
control.connect(sys.argv[1])
descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1))
control.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
os.close(0)
os.close(1)
control.recv(1)
