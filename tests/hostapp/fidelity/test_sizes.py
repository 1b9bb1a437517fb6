"""Large messages, and messages in very small pieces."""

from __future__ import annotations

import pytest

from .awkward import UNKNOWN, VALUES
from .ends import talking
from .pairs import Case, Form, everywhere, in_every_form

pytestmark = pytest.mark.anyio


@in_every_form
async def test_large_results(case: Case, form: Form) -> None:
    async with talking(case, form) as ends:
        for size in (100_000, 5_000_000):
            text = ("0123456789abcde\U0001f600" * (size // 16))[: size - 1] + "."
            result = f'{{"content":[{{"type":"text","text":"{text}"}}],"z":1.0}}'
            arrival = await ends.exchange("tools/call", {"name": "t"}, result=result)
            assert arrival.message["result"]["content"][0]["text"] == text


@everywhere
async def test_large_params(case: Case) -> None:
    async with talking(case) as ends:
        await ends.exchange("tools/call", {"name": "t", "arguments": {"text": "x" * 1_000_000}})


@everywhere
async def test_a_result_of_many_small_parts(case: Case) -> None:
    part = '{"type":"text","text":"","annotations":{"priority":1.0,"audience":[]}}'
    async with talking(case) as ends:
        await ends.exchange("tools/call", {"name": "t"}, result=f'{{"content":[{",".join([part] * 2000)}]}}')


@everywhere
async def test_single_bytes(case: Case) -> None:
    async with talking(case, "single bytes") as ends:
        for values in ("emoji", "lone surrogates", "numbers that are whole and not integers"):
            await ends.exchange("tools/call", {"name": "t"}, result=f'{{"x":{VALUES[values]}}}', more=UNKNOWN)
            await ends.exchange("tools/call", {"name": "t"}, error='{"code":1,"message":"\U0001f600"}')
