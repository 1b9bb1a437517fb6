"""Find and edit the text in a payload, and look at text as it reads.

A payload is request params, a result, or `{"error": {...}}`. Its text stands in strings at any depth, in JSON inside
such strings, and in object keys. A mutator edits it:

    @mutator(events=["*"], phase="both", errors=True)
    def hide_codename(payload: dict[str, Any]) -> dict[str, Any] | None:
        return edit_text(payload, lambda text: text.value.replace("BLUEBIRD", "[codename]"))

A validator looks at it:

    @validator(events=["tools/call"], phase="request")
    def no_codename(payload: dict[str, Any]) -> str | None:
        return next((f"codename in {text.path}" for text in find_text(payload) if "BLUEBIRD" in text.value), None)

What nobody sees: base64 media (`data` of image and audio content, `blob` of resources), base64 `data:` URIs, and
`requestState`. What `find_text` shows and `edit_text` leaves alone: the operation's target (`name`, `uri`, `ref`,
`taskId` at the top), cursors, reserved `_meta` keys and progress tokens; a validator denies what a mutator may not
change there.

Text that is to be read as a person reads it goes through `fold` first: full-width letters become ordinary ones, and
invisible characters go. `Folded.original_span` and `replace_spans` then change the original, and of it the finding
only.
"""

from midspan_sdk.payload._fold import Folded, fold
from midspan_sdk.payload._parts import EDITABLE_PARTS, PROTECTED_PARTS, Part, Text
from midspan_sdk.payload._spans import replace_spans
from midspan_sdk.payload._walk import edit_text, find_text

__all__ = [
    "EDITABLE_PARTS",
    "PROTECTED_PARTS",
    "Folded",
    "Part",
    "Text",
    "edit_text",
    "find_text",
    "fold",
    "replace_spans",
]
