"""A chain of two interceptors in this process, over both phases of one call."""

from typing import Any

import anyio
from pydantic import BaseModel

from midspan_sdk import Chain, Exchange, InvocationContext, mutator, validator
from midspan_sdk.payload import edit_text


class Order(BaseModel):
    pieces: int


class OrderCall(BaseModel):
    name: str
    arguments: Order


@mutator(events=["tools/call"], phase="both")
def hide_codename(payload: dict[str, Any]) -> dict[str, Any] | None:
    return edit_text(payload, lambda text: text.value.replace("BLUEBIRD", "[codename]"))


@validator(events=["tools/call"], phase="request")
def small_orders(params: OrderCall) -> str | None:
    return "more than 100 pieces" if params.arguments.pieces > 100 else None


async def call(chain: Chain, pieces: int) -> None:
    context = InvocationContext(session_id="one", server="shop")
    exchange = Exchange()
    arguments = {"pieces": pieces, "note": "for BLUEBIRD"}
    request = await chain.execute(
        event="tools/call",
        phase="request",
        payload={"name": "order", "arguments": arguments},
        context=context,
        exchange=exchange,
    )
    if request.aborted_at is not None:
        print(f"{request.status}: {request.aborted_at.interceptor}: {request.aborted_at.reason}")
        return
    print("sent:", request.final_payload)
    answer = {"content": [{"type": "text", "text": "BLUEBIRD ordered"}]}  # in the place of the server
    response = await chain.execute(
        event="tools/call", phase="response", payload=answer, context=context, exchange=exchange
    )
    print("received:", response.final_payload)


async def main() -> None:
    async with Chain() as chain:
        chain.add(hide_codename, small_orders)
        await call(chain, 5)
        await call(chain, 500)


if __name__ == "__main__":
    anyio.run(main)
