"""What tomllib finds wrong with a text, with what to do about it. Needs the standard library only.

No sentence shows what stands there but names of keys: what is no TOML may be a secret without its quotes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Final

_TEXT_OPEN: Final = "a text is not closed: put the same quote behind it as before it, on the same line"
_BACKSLASH: Final = r"a backslash in a text is written \\; or put the text in single quotes"
_CONTROL: Final = "has a control character, which TOML takes in no place but a text, as \\u0000"
_TAKEN: Final = re.compile(
    r"Cannot (declare|mutate immutable namespace|redefine namespace) (?P<keys>\(.*\))(?: twice)?"
)
_TWICE_INLINE: Final = re.compile(r"Duplicate inline table key (?P<key>'.*'|\".*\")")

_SENTENCES: Final = {
    "Cannot overwrite a value": "the same key stands in this table already; keep one of the two",
    "Escaped character is not a Unicode scalar value": "a \\u in a text names no character",
    "Expected '=' after a key in a key/value pair": "a key is followed by = and its value: key = value",
    "Expected ']' at the end of a table declaration": "the name of a table is closed by a bracket: [table]",
    "Expected ']]' at the end of an array declaration": (
        "the name of a list of tables is closed by two brackets: [[table]]"
    ),
    "Expected newline or end of document after a statement": (
        "something stands behind a value; write one key = value in a line, and texts in quotes"
    ),
    "Invalid date or datetime": "is no date; write 2026-01-31, or a text in quotes",
    "Invalid hex value": _BACKSLASH,
    "Invalid initial character for a key part": (
        "no key begins with this character; a name other than letters, digits, - and _ is put in quotes"
    ),
    "Invalid statement": "a line is a [table], a key = value, or a # comment",
    "Unclosed array": "a list is not closed: its ] is missing, or a comma between two elements",
    "Unclosed inline table": "a table is not closed: its } is missing, or a comma between two of its keys",
    "Unescaped '\\' in a string": _BACKSLASH,
    "Unterminated string": 'a text is not closed: its closing quotes, such as """, are missing',
}


def syntax_in_words(message: str, rest: str) -> str:
    """Return the sentence for a mistake.

    Args:
        message: what tomllib says, without the place.
        rest: the text from that place on.
    """
    if message == "Invalid value":
        if re.match(r"[ \t]*(\r?\n|#|$)", rest):
            return "the value is missing; write one behind the ="
        return "is no value; put a text in quotes, and write true and false in lower case"
    if message.startswith(("Illegal character", "Found invalid character")):
        return _TEXT_OPEN if rest.startswith(("\n", "\r")) else _CONTROL
    if taken := _TAKEN.fullmatch(message):
        return f"[{_dotted(_keys(taken['keys']))}] is there already; put all of its keys into one place"
    if twice := _TWICE_INLINE.fullmatch(message):
        return f"the key {ast.literal_eval(twice['key'])!r} stands in one table twice; keep one of the two"
    return _SENTENCES.get(message, message)


def _keys(text: str) -> Sequence[str]:
    try:
        return tuple(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return (text,)


def _dotted(keys: Sequence[str]) -> str:
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"' for key in keys)
