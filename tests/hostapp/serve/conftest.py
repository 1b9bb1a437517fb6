from collections.abc import Callable
from pathlib import Path

import pytest

from midspan.plugins import Assembly, Builder


@pytest.fixture
def assembled(tmp_path: Path) -> Callable[..., Assembly]:
    """Assemble plugin files, given as `name=source`, under a config."""

    def build(config: str = "", **sources: str) -> Assembly:
        settings = tmp_path / "midspan.toml"
        settings.write_text(config)
        files = [tmp_path / f"{name}.py" for name in sources]
        for file, source in zip(files, sources.values(), strict=True):
            file.write_text(source)
        return Builder(config=settings, plugin_files=files, gives=("session", "store")).assembly()

    return build
