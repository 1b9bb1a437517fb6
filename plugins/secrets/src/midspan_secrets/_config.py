"""The plugin's config table."""

from __future__ import annotations

from difflib import get_close_matches
from string import Formatter
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from midspan_secrets._detectors import DETECTORS, KINDS

DEFAULT_REPLACEMENT: Final = "[REDACTED:{kind}]"
_UNSAFE: Final = frozenset("\"'\\<>&%")


def _known(kind: str) -> str:
    if kind in KINDS:
        return kind
    near = get_close_matches(kind, KINDS, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(KINDS)}"
    raise ValueError(f"unknown kind of secret {kind!r}; {hint}")


def _template(template: str) -> str:
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"is no template: {error}") from None
    if "".join(literal + ("{kind}" if field == "kind" else "") for literal, field, _, _ in parts) != template:
        raise ValueError("the only placeholder is {kind}, and braces stand for nothing else")
    if unsafe := [one for one in template if one in _UNSAFE or not one.isprintable()]:
        raise ValueError(f"must not contain {unsafe[0]!r}, which could break the text around a secret")
    if any(_is_found(template.replace("{kind}", kind)) for kind in KINDS):
        raise ValueError("looks like a secret itself")
    return template


def _is_found(text: str) -> bool:
    """Tell whether any detector finds a secret in a text."""
    return any(True for detector in DETECTORS for _ in detector.find(text))


Kind = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(KINDS)})]


class SecretsConfig(BaseModel):
    """What is detected and what stands in its place.

    Attributes:
        detect: the kinds to detect; all when left out.
        ignore: kinds not to detect.
        allow: exact values that are known to be harmless, such as those of a provider's documentation.
        replacement: what stands in the place of a secret; `{kind}` is its kind.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    detect: tuple[Kind, ...] = KINDS
    ignore: tuple[Kind, ...] = ()
    allow: tuple[Annotated[str, StringConstraints(min_length=8)], ...] = ()
    replacement: Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_template)] = (
        DEFAULT_REPLACEMENT
    )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are detected."""
        return tuple(kind for kind in KINDS if kind in self.detect and kind not in self.ignore)

    @model_validator(mode="after")
    def _detects_something(self) -> Self:
        if not self.kinds:
            raise ValueError("nothing is left to detect; name a kind in detect, or ignore fewer")
        return self
