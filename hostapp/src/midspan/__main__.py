"""`python -m midspan` is the command `midspan`."""

import os
import sys

# `-m` puts the working directory first on the import path. A cloned repository must not bring code into a guard.
if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from midspan.cli import main

if __name__ == "__main__":
    main()
