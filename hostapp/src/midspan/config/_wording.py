"""What pydantic finds wrong, in the words of a TOML file.

Each type of error that pydantic has gets a sentence that goes on from the name of the key: `must be true or false`. No
sentence shows the value that stands there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Context = Mapping[str, Any]

TABLE: Final = "must be a table"
LIST: Final = "must be a list"
TEXT: Final = "must be a text, in quotes"
WHOLE: Final = "must be a whole number"
MISSING: Final = "is missing"
UNKNOWN: Final = "unknown key"
_NUMBER: Final = "must be a number"
_BOOLEAN: Final = "must be true or false"
_DATE: Final = "must be a date, such as 2026-01-31"
_TIME: Final = "must be a time, such as 08:30:00"
_DATETIME: Final = "must be a date with a time, such as 2026-01-31T08:30:00Z"
_DURATION: Final = 'must be a duration: a number of seconds, or a text such as "00:01:30"'
_URL: Final = 'must be a URL, such as "https://example.com/"'
_UUID: Final = 'must be a UUID, such as "123e4567-e89b-12d3-a456-426614174000"'
_FRACTION: Final = 'must be a number, or a fraction such as "1/3"'
_COMPLEX: Final = 'must be a number, or a complex one such as "1+2j"'
_JSON: Final = "must be a text that holds JSON"
_LEFT_OUT: Final = "must be left out"
_IMPOSSIBLE: Final = "takes what no config file can hold; leave it out"
_TOO_DEEP: Final = "is nested too deeply"
_SURPLUS: Final = "has more elements than the plugin takes"

KINDS_OF_LISTS: Final = frozenset(
    {"deque_type", "frozen_set_type", "iterable_type", "list_type", "set_type", "tuple_type"}
)
KINDS_OF_LITERALS: Final = frozenset({"enum", "literal_error"})
KINDS_OF_MISSING: Final = frozenset(
    {"missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument"}
)
KINDS_OF_UNKNOWN: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


def _counted(number: object, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _at_least(context: Context) -> str:
    if context["min_length"] == 1:
        return "must not be empty"
    return f"must have at least {_elements(context['min_length'], context)}, and has {context['actual_length']}"


def _at_most(context: Context) -> str:
    return f"must have at most {_elements(context['max_length'], context)}"


def _elements(number: object, context: Context) -> str:
    is_table = context.get("field_type") == "Dictionary"
    return _counted(number, "key", "keys") if is_table else _counted(number, "element", "elements")


def _characters(word: str, key: str) -> Callable[[Context], str]:
    return lambda context: f"must have at {word} {_counted(context[key], 'character', 'characters')}"


def _bound(words: str, key: str) -> Callable[[Context], str]:
    return lambda context: f"must be {words} {context[key]}"


def _digits(key: str, where: str) -> Callable[[Context], str]:
    return lambda context: f"must have at most {_counted(context[key], 'digit', 'digits')}{where}"


_SENTENCES: Final[dict[str, str | Callable[[Context], str]]] = {
    # Keys.
    **dict.fromkeys(KINDS_OF_MISSING, MISSING),
    **dict.fromkeys(KINDS_OF_UNKNOWN, UNKNOWN),
    "default_factory_not_called": "has no default as long as another key is wrong; put that right first",
    "invalid_key": "has a key that is no text",
    "multiple_argument_values": "is given twice; keep one of the two",
    "unexpected_positional_argument": _SURPLUS,
    # Tables and lists.
    **dict.fromkeys(
        (
            "counter_type",
            "dataclass_exact_type",
            "dataclass_type",
            "dict_type",
            "frozen_dict_type",
            "mapping_type",
            "model_attributes_type",
            "model_type",
            "ordered_dict_type",
        ),
        TABLE,
    ),
    **dict.fromkeys(KINDS_OF_LISTS, LIST),
    "arguments_type": "must be a table or a list",
    "iteration_error": LIST,
    "named_tuple_type": "must be a table or a list",
    "set_item_not_hashable": "must be neither a table nor a list",
    "too_long": _at_most,
    "too_short": _at_least,
    # Texts.
    "bytes_invalid_encoding": lambda context: f"must be a text in the encoding {context['encoding']}",
    "bytes_too_long": _characters("most", "max_length"),
    "bytes_too_short": _characters("least", "min_length"),
    "bytes_type": TEXT,
    "string_not_ascii": "must have ASCII characters only",
    "string_pattern_mismatch": lambda context: f"must match the pattern {context['pattern']}",
    "string_too_long": _characters("most", "max_length"),
    "string_too_short": _characters("least", "min_length"),
    "string_type": TEXT,
    "string_unicode": TEXT,
    # Numbers.
    "bool_parsing": _BOOLEAN,
    "bool_type": _BOOLEAN,
    "complex_str_parsing": _COMPLEX,
    "complex_type": _COMPLEX,
    "decimal_max_digits": _digits("max_digits", ""),
    "decimal_max_places": _digits("decimal_places", " after the point"),
    "decimal_parsing": _NUMBER,
    "decimal_type": _NUMBER,
    "decimal_whole_digits": _digits("whole_digits", " before the point"),
    "finite_number": "must be a number, neither infinite nor nan",
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "fraction_parsing": _FRACTION,
    "fraction_type": _FRACTION,
    "greater_than": _bound("more than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "int_from_float": WHOLE,
    "int_parsing": WHOLE,
    "int_parsing_size": "must be a whole number of fewer digits",
    "int_type": WHOLE,
    "less_than": _bound("less than", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "multiple_of": _bound("a multiple of", "multiple_of"),
    # Dates and times, which TOML has too.
    "date_from_datetime_inexact": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_future": "must be a date in the future",
    "date_parsing": _DATE,
    "date_past": "must be a date in the past",
    "date_type": _DATE,
    "datetime_from_date_parsing": _DATETIME,
    "datetime_future": "must be in the future",
    "datetime_object_invalid": _DATETIME,
    "datetime_parsing": _DATETIME,
    "datetime_past": "must be in the past",
    "datetime_type": _DATETIME,
    "time_delta_parsing": _DURATION,
    "time_delta_type": _DURATION,
    "time_parsing": _TIME,
    "time_type": _TIME,
    "timezone_aware": "must have an offset from UTC, such as Z or +01:00",
    "timezone_naive": "must have no offset from UTC: no Z and no +01:00",
    "timezone_offset": lambda context: f"must have the offset from UTC of {context['tz_expected']} seconds",
    # Texts of a form.
    "json_invalid": _JSON,
    "json_type": _JSON,
    "url_parsing": _URL,
    "url_scheme": lambda context: f"must be a URL that begins with {context['expected_schemes']}",
    "url_syntax_violation": _URL,
    "url_too_long": _characters("most", "max_length"),
    "url_type": _URL,
    "uuid_parsing": _UUID,
    "uuid_type": _UUID,
    "uuid_version": lambda context: f"must be a UUID of version {context['expected_version']}",
    # A choice.
    **dict.fromkeys(KINDS_OF_LITERALS, lambda context: f"must be {context['expected']}"),
    "union_tag_invalid": lambda context: (
        f"has in {_plain(context['discriminator'])} what is not known; accepted there: {context['expected_tags']}"
    ),
    "union_tag_not_found": lambda context: f"needs the key {_plain(context['discriminator'])}, which says what it is",
    "none_required": _LEFT_OUT,
    "missing_sentinel_error": _LEFT_OUT,
    "ellipsis_error": _LEFT_OUT,
    # What TOML cannot hold, or what does not come of reading TOML.
    **dict.fromkeys(("callable_type", "is_instance_of", "is_subclass_of", "needs_python_object"), _IMPOSSIBLE),
    **dict.fromkeys(("get_attribute_error", "no_such_attribute"), TABLE),
    **dict.fromkeys(("recursion_depth_exceeded", "recursion_loop"), _TOO_DEEP),
    **dict.fromkeys(("frozen_field", "frozen_instance"), "cannot be changed"),
}

_FOREIGN: Final = (
    (re.compile(r"^(?:Value error|Assertion failed), "), ""),
    (re.compile(r"^Value (should|must) "), "must "),
    (re.compile(r"^(?:\w+ )?[Ii]nput (?:should|must) (?:be an? )?valid "), "must be a valid "),
    (re.compile(r"^(?:\w+ )?[Ii]nput (?:should|must) "), "must "),
    (re.compile(r"^[Ii]nput is "), "is "),
    (re.compile(r"^value is "), "is "),
    (re.compile(r"^Path does not point to (.*)$"), r"must be the path of \1"),
    (re.compile(r"^Path already exists$"), "must be a path at which nothing is yet"),
    (re.compile(r"^Parent directory does not exist$"), "must be a path whose folder exists"),
)
"""How the words of a validator, a plugin's or one of pydantic's own that has no type of its own, begin."""


def in_words(kind: str, message: str, context: Context) -> str:
    """Return the sentence for an error.

    Args:
        kind: pydantic's name for the type of error; one that it has not, such as a plugin's own, is told by `message`.
        message: what pydantic, or the plugin, says.
        context: what pydantic knows of the type: bounds, accepted values.
    """
    sentence = _SENTENCES.get(kind)
    if sentence is None:
        return _foreign(message)
    if isinstance(sentence, str):
        return sentence
    try:
        return sentence(context)
    except KeyError:
        return _foreign(message)


def known_kinds() -> frozenset[str]:
    """Return the types of error that have a sentence of their own; the words of validators need none."""
    return frozenset(_SENTENCES)


def _foreign(message: str) -> str:
    for pattern, words in _FOREIGN:
        message = pattern.sub(words, message)
    return message


def _plain(discriminator: object) -> str:
    return str(discriminator).strip("'").join("``")
