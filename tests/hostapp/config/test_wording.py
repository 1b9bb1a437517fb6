"""Whatever pydantic finds wrong is told in the words of a TOML file."""

from __future__ import annotations

import re
import tomllib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import (
    UUID4,
    AnyUrl,
    AwareDatetime,
    BaseModel,
    DirectoryPath,
    Field,
    FilePath,
    FutureDate,
    HttpUrl,
    Json,
    NaiveDatetime,
    PastDate,
    StrictBool,
    StrictStr,
    ValidationError,
    create_model,
)
from pydantic_core import ErrorTypeInfo
from pydantic_core._pydantic_core import list_all_errors  # pyright: ignore[reportPrivateUsage] - its only home

from midspan.config import faults_of
from midspan.config._wording import in_words, known_kinds

ALL: dict[str, ErrorTypeInfo] = {info["type"]: info for info in list_all_errors()}
OF_VALIDATORS = {"value_error", "assertion_error"}
"""Their words are the validator's own."""
FOREIGN = re.compile(
    r"\b([Ii]nput|string|dictionary|mapping|integer|boolean|array|object|tuple|frozen\w*|None|null|Python|pydantic|attribute"
    r"|callable|instance|iterable|inputs|valid|validation|OrderedDict|Counter|timedelta|datetime|parsing)\b"
)
"""Words of Python and JSON, which no TOML file has."""


@pytest.mark.parametrize("kind", sorted(ALL.keys() - OF_VALIDATORS))
def test_every_type_of_error_has_a_sentence_in_the_words_of_toml(kind: str) -> None:
    assert kind in known_kinds()
    sentence = in_words(kind, ALL[kind]["message_template_python"], ALL[kind].get("example_context") or {})
    assert not FOREIGN.search(sentence), sentence
    assert "{" not in sentence
    assert re.match(r"(must|is|has|needs|takes|unknown|cannot) ?", sentence), sentence
    assert "\n" not in sentence


def test_no_sentence_is_for_a_type_that_pydantic_has_not() -> None:
    assert known_kinds() - ALL.keys() == set()


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Rule(BaseModel, extra="forbid"):
    name: str
    depth: int = 1


class Other(BaseModel, extra="forbid"):
    kind: Literal["other"]
    size: int


class One(BaseModel, extra="forbid"):
    kind: Literal["one"]
    name: str


class Pair(NamedTuple):
    left: int
    right: str


def told(annotation: Any, value: str) -> list[str]:
    """Return what is said of a key of a type, with a value as TOML has it."""
    model: type[BaseModel] = create_model("Model", key=(annotation, ...))
    data = tomllib.loads(f"key = {value}\n")
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return [f"{'.'.join(map(str, fault.keys))}: {fault.problem}" for fault in faults_of(caught.value, model, data)]


@pytest.mark.parametrize(
    ("annotation", "value", "lines"),
    [
        (bool, '"maybe"', ["key: must be true or false"]),
        (StrictBool, "1", ["key: must be true or false"]),
        (int, '"a"', ["key: must be a whole number"]),
        (int, "1.5", ["key: must be a whole number"]),
        (int, "[]", ["key: must be a whole number"]),
        (float, '"a"', ["key: must be a number"]),
        (Annotated[float, Field(allow_inf_nan=False)], "inf", ["key: must be a number, neither infinite nor nan"]),
        (str, "5", ["key: must be a text, in quotes"]),
        (StrictStr, "true", ["key: must be a text, in quotes"]),
        (list[str], '"a"', ["key: must be a list of texts"]),
        (list[str], "[1, 2]", ["key.0: must be a text, in quotes", "key.1: must be a text, in quotes"]),
        (tuple[int, ...], "1", ["key: must be a list of whole numbers"]),
        (set[str], "1", ["key: must be a list of texts"]),
        (frozenset[float], "1", ["key: must be a list of numbers"]),
        (deque[int], "1", ["key: must be a list"]),
        (list[list[int]], "1", ["key: must be a list of lists of whole numbers"]),
        (list[Rule], "1", ["key: must be a list of tables"]),
        (tuple[int, str], "[1]", ["key.1: is missing"]),
        (set[Any], "[[1]]", ["key.0: must be neither a table nor a list"]),
        (dict[str, int], "1", ["key: must be a table"]),
        (OrderedDict[str, int], "1", ["key: must be a table"]),
        (Counter[str], "1", ["key: must be a table"]),
        (dict[str, int], '{ a = "b" }', ["key.a: must be a whole number"]),
        (Rule, "1", ["key: must be a table"]),
        (Rule, "{}", ["key.name: is missing; accepted: text"]),
        (Rule, '{ nam = "x" }', ["key.nam: unknown key; did you mean 'name'?", "key.name: is missing; accepted: text"]),
        (Pair, "5", ["key: must be a table or a list"]),
        (Annotated[int, Field(ge=1)], "0", ["key: must be at least 1"]),
        (Annotated[int, Field(gt=1)], "0", ["key: must be more than 1"]),
        (Annotated[int, Field(le=5)], "9", ["key: must be at most 5"]),
        (Annotated[float, Field(lt=0.5)], "9", ["key: must be less than 0.5"]),
        (Annotated[int, Field(multiple_of=5)], "9", ["key: must be a multiple of 5"]),
        (Annotated[list[int], Field(min_length=1)], "[]", ["key: must not be empty"]),
        (Annotated[list[int], Field(min_length=2)], "[1]", ["key: must have at least 2 elements, and has 1"]),
        (Annotated[list[int], Field(max_length=1)], "[1, 2]", ["key: must have at most 1 element"]),
        (Annotated[dict[str, int], Field(min_length=2)], "{}", ["key: must have at least 2 keys, and has 0"]),
        (Annotated[str, Field(min_length=1)], '""', ["key: must have at least 1 character"]),
        (Annotated[str, Field(max_length=2)], '"abc"', ["key: must have at most 2 characters"]),
        (Annotated[str, Field(pattern="^a+$")], '"b"', ["key: must match the pattern ^a+$"]),
        (Literal["deny", "allow"], '"alow"', ["key: must be 'deny' or 'allow'; did you mean 'allow'?"]),
        (Literal["deny", "allow"], "1", ["key: must be 'deny' or 'allow'"]),
        (Colour, '"rde"', ["key: must be 'red' or 'blue'; did you mean 'red'?"]),
        (date, '"tomorrow"', ["key: must be a date, such as 2026-01-31"]),
        (time, '"noon"', ["key: must be a time, such as 08:30:00"]),
        (datetime, '"noon"', ["key: must be a date with a time, such as 2026-01-31T08:30:00Z"]),
        (timedelta, '"a while"', ['key: must be a duration: a number of seconds, or a text such as "00:01:30"']),
        (AwareDatetime, "2026-01-01T00:00:00", ["key: must have an offset from UTC, such as Z or +01:00"]),
        (NaiveDatetime, "2026-01-01T00:00:00Z", ["key: must have no offset from UTC: no Z and no +01:00"]),
        (PastDate, "9999-01-01", ["key: must be a date in the past"]),
        (FutureDate, "1999-01-01", ["key: must be a date in the future"]),
        (AnyUrl, '"nowhere"', ['key: must be a URL, such as "https://example.com/"']),
        (HttpUrl, '"ftp://a/"', ["key: must be a URL that begins with 'http' or 'https'"]),
        (UUID, '"x"', ['key: must be a UUID, such as "123e4567-e89b-12d3-a456-426614174000"']),
        (UUID4, '"123e4567-e89b-12d3-a456-426614174000"', ["key: must be a UUID of version 4"]),
        (Decimal, '"x"', ["key: must be a number"]),
        (Annotated[Decimal, Field(max_digits=2)], "12.3", ["key: must have at most 2 digits"]),
        (Fraction, '"x"', ['key: must be a number, or a fraction such as "1/3"']),
        (complex, '"x"', ['key: must be a number, or a complex one such as "1+2j"']),
        (Json[int], '"{"', ["key: must be a text that holds JSON"]),
        (bytes, "1", ["key: must be a text, in quotes"]),
        (None, "1", ["key: must be left out"]),
        (Callable[[], None], '"x"', ["key: takes what no config file can hold; leave it out"]),
        (FilePath, '"/not/there"', ["key: must be the path of a file"]),
        (DirectoryPath, '"/not/there"', ["key: must be the path of a directory"]),
        (IPv4Address, '"x"', ["key: is not a valid IPv4 address"]),
        # Of several types.
        (int | list[str], '"x"', ["key: must be a whole number or a list"]),
        (
            Annotated[int, Field(ge=1)] | Literal["auto"],
            '"autp"',
            ["key: must be a whole number or 'auto'; did you mean 'auto'?"],
        ),
        (int | Rule, "{ name = 5 }", ["key.name: must be a text, in quotes"]),
        (str | Rule, "{}", ["key.name: is missing; accepted: text"]),
        (list[int | Rule], "[1, { name = 'x', depht = 2 }]", ["key.1.depht: unknown key; did you mean 'depth'?"]),
        (One | Other, '{ kind = "other" }', ["key.size: is missing; accepted: whole number"]),
        (
            Annotated[One | Other, Field(discriminator="kind")],
            '{ kind = "s3cr3t" }',
            ["key: has in `kind` what is not known; accepted there: 'one', 'other'"],
        ),
        (
            Annotated[One | Other, Field(discriminator="kind")],
            "{}",
            ["key: needs the key `kind`, which says what it is"],
        ),
        (
            Annotated[One | Other, Field(discriminator="kind")],
            '{ kind = "one", name = 1 }',
            ["key.name: must be a text, in quotes"],
        ),
    ],
)
def test_what_a_plugins_model_finds_wrong_is_told_where_it_stands(
    annotation: Any, value: str, lines: list[str]
) -> None:
    assert told(annotation, value) == lines


def test_a_path_that_must_not_be_there_is_told(tmp_path: Path) -> None:
    from pydantic import NewPath

    assert told(NewPath, f'"{tmp_path}"') == ["key: must be a path at which nothing is yet"]
    assert told(NewPath, f'"{tmp_path}/a/b"') == ["key: must be a path whose folder exists"]
