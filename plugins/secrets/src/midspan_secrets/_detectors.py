"""All detectors, by kind."""

from __future__ import annotations

from typing import Final

from midspan_secrets._aws_secret import AwsSecretDetector
from midspan_secrets._detector import Detector
from midspan_secrets._jwt import JwtDetector
from midspan_secrets._private_key import PrivateKeyDetector
from midspan_secrets._providers import PROVIDERS

PRIVATE_KEY: Final = PrivateKeyDetector.kind
JWT: Final = JwtDetector.kind

DETECTORS: Final[tuple[Detector, ...]] = (*PROVIDERS, AwsSecretDetector(), JwtDetector(), PrivateKeyDetector())
KINDS: Final[tuple[str, ...]] = tuple(sorted(detector.kind for detector in DETECTORS))
"""The kinds of secrets that can be detected, by name."""
