"""A validator for what is called, and a mutator for what comes back."""

from typing import Any

from midspan_acme_shell._config import ShellConfig
from midspan_sdk import ValidationResult, deny, mutator, validator
from midspan_sdk.events import TOOLS_CALL
from midspan_sdk.payload import EDITABLE_PARTS, Text, edit_text, find_text, fold


@validator(events=[TOOLS_CALL], phase="request")
def forbidden_command(payload: dict[str, Any], config: ShellConfig) -> ValidationResult | None:
    """Deny calls of a shell tool whose arguments contain a forbidden text."""
    if payload.get("name") not in config.tools:
        return None
    for text in find_text(payload, EDITABLE_PARTS):
        # Folded: full-width letters and characters without width do not hide a text.
        as_read = fold(text.value).text
        for number, forbidden in enumerate(config.forbidden):
            if forbidden in as_read:
                rule = f"forbidden[{number}]"
                return deny(f"the command holds a text of rule {rule}", path=text.path, info={"rule": rule})
    return None


@mutator(events=[TOOLS_CALL], phase="response")
def hide_hosts(payload: dict[str, Any], request: dict[str, Any] | None, config: ShellConfig) -> dict[str, Any] | None:
    """Cut configured texts out of the results of shell tools."""
    if request is None or request.get("name") not in config.tools:
        return None

    def without(text: Text) -> str:
        value = text.value
        for hidden in config.hide:
            value = value.replace(hidden, "")
        return value

    return edit_text(payload, without)
