"""Stands between a gateway and a server and notes what the server is asked: `python tee.py LOG COMMAND...`.

The server writes to this process's own stdout, so only the way to it passes here.
"""

import subprocess
import sys

log, *command = sys.argv[1:]
server = subprocess.Popen(command, stdin=subprocess.PIPE)
assert server.stdin is not None
with open(log, "ab", buffering=0) as notes:
    for line in sys.stdin.buffer:
        notes.write(line)
        server.stdin.write(line)
        server.stdin.flush()
server.stdin.close()
sys.exit(server.wait())
