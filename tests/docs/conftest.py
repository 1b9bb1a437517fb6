import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this one


@pytest.fixture(autouse=True)
def commands_of_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `midspan` and `python` be those that run the tests."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
