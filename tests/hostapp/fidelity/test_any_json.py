"""Any JSON is the same on the other side, in both directions. One connection serves many examples."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any, Final

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.patience import PATIENCE

from .ends import Ends, talking
from .pairs import Case, cases

pytestmark = pytest.mark.anyio

EXAMPLES: Final = 25
HOURS: Final = 3600.0
"""How long a connection may serve: each example has a deadline of its own."""

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=[]), max_size=12)
)
KEYS = st.text(st.characters(exclude_categories=[]), max_size=6)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)

IDS = st.integers(0, 2**63) | st.text(max_size=6)


def written(value: Any, ascii_only: bool) -> str:
    """Write a value in one of two ways; with lone surrogates there is but one."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


@st.composite
def exchanges(draw: st.DrawFn) -> dict[str, Any]:
    """Make a request and its answer, in one of the many spellings."""
    ascii_only = draw(st.booleans())
    params, answer, envelope = (written(draw(OBJECTS), ascii_only) for _ in range(3))
    exchange = {
        "method": draw(st.sampled_from(["tools/call", "acme/x"])),
        "message_id": draw(IDS),
        "params": f'{{"name":"t","arguments":{params},"x":{params}}}',
        "more": f',"future":{envelope}',
    }
    if draw(st.booleans()):
        return {**exchange, "result": f'{{"content":[],"structuredContent":{answer},"x":{answer}}}'}
    return {**exchange, "error": f'{{"code":1,"message":"m","data":{answer}}}'}


@pytest.fixture(scope="module", params=cases(), ids=str)
async def ends(request: pytest.FixtureRequest, host: None) -> AsyncGenerator[Ends]:
    case: Case = request.param
    async with talking(case, patience=HOURS) as ends:
        yield ends


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(exchange=exchanges())
async def test_any_json_is_the_same_on_the_other_side(ends: Ends, exchange: dict[str, Any]) -> None:
    with anyio.fail_after(PATIENCE):
        await ends.exchange(**exchange)
