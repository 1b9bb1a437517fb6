"""The plugin's config table."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, field_validator, model_validator

from midspan_policy._fold import fold
from midspan_policy._glob import Glob
from midspan_policy._rules import Effect, Policy


def _is_written(pattern: str) -> str:
    if not pattern:
        raise ValueError("is empty; write a tool name or a glob, or remove it")
    return pattern


def _is_visible(pattern: str) -> str:
    if any(part and not fold(part) for part in pattern.split("*")):
        raise ValueError(
            f"{pattern!r} has a part of invisible characters or combining marks only, which a deny does not tell apart "
            "from nothing; write visible characters of the name"
        )
    return pattern


AllowPattern = Annotated[str, AfterValidator(_is_written)]
DenyPattern = Annotated[AllowPattern, AfterValidator(_is_visible)]


class PolicyConfig(BaseModel):
    """Which tools may be called and seen. Deny wins.

    In a pattern `*` stands for any run of characters and nothing else is special; a pattern matches the whole name;
    letter case counts.

    Attributes:
        allow: patterns of tool names, matched to the letter. When there are any, all other tools are denied.
        deny: patterns of tool names; look-alikes of a denied name are denied too.
        default: what becomes of a tool that no pattern matches. Follows from `allow` when left out.
        dry_run: record what would be denied and hidden, and let everything pass.

    Raises:
        pydantic.ValidationError: an unknown key, or a policy that cannot do what it says: no patterns, an empty one, an
            allow that a deny takes back, a default that leaves a list without effect or every tool denied.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow: tuple[AllowPattern, ...] = Field(
        default=(), description="Globs of tools that are allowed; all others are denied."
    )
    deny: tuple[DenyPattern, ...] = Field(default=(), description="Globs of tools that are denied; deny wins.")
    default: Effect | None = Field(
        default=None, description="For tools that no pattern matches; `deny` when `allow` has patterns, else `allow`."
    )
    dry_run: StrictBool = Field(default=False, description="Record verdicts and let everything pass.")

    @field_validator("allow", "deny", mode="before")
    @classmethod
    def _is_a_list(cls, value: object) -> object:
        if not isinstance(value, list | tuple):
            example = value if isinstance(value, str) and value else "delete_*"
            raise ValueError(f"must be a list of tool-name globs, for example [{example!r}]")
        return cast("object", value)

    @model_validator(mode="after")
    def _can_do_what_it_says(self) -> Self:
        if not self.allow and not self.deny:
            if self.default == "deny":
                raise ValueError(_EVERYTHING_DENIED)
            raise ValueError(
                "the policy is empty; name tools in `deny` (all others stay allowed) or in `allow` (all others are "
                "denied)"
            )
        if self.default == "allow" and self.allow:
            raise ValueError(
                '`allow` has no effect with default = "allow", which allows every tool that `deny` does not name; '
                "remove one of the two"
            )
        if self.default == "deny" and not self.allow:
            raise ValueError(_EVERYTHING_DENIED)
        policy = self.policy
        for allowed in policy.allow:
            assert allowed.glob is not None
            folded = allowed.glob.folded()
            for denied in policy.deny:
                assert denied.glob is not None
                if denied.glob.covers(folded):
                    raise ValueError(
                        f"{allowed.id} ({allowed.pattern!r}) can never allow anything: {denied.id} "
                        f"({denied.pattern!r}) denies all of it, and deny wins; remove one of the two"
                    )
        if not self.deny and any(Glob.of(pattern).matches_everything for pattern in self.allow):
            raise ValueError("the policy allows every tool and denies none; name tools in `deny`, or disable it")
        return self

    @cached_property
    def policy(self) -> Policy:
        """The rules, compiled once per config."""
        return Policy(allow=self.allow, deny=self.deny, default=self.default or ("deny" if self.allow else "allow"))


_EVERYTHING_DENIED = (
    'default = "deny" with an empty `allow` denies every tool; name tools in `allow`, or write deny = ["*"] if that is '
    "meant"
)
