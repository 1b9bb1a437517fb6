"""An observer takes a record of every decision."""

from typing import Any

import anyio

from midspan_sdk import Chain, DecisionRecord, validator


@validator(events=["tools/call"], phase="request")
def no_deletes(payload: dict[str, Any]) -> str | None:
    return "deletes are off" if str(payload.get("name")).startswith("delete") else None


class Ledger:
    """Keeps what was decided. Durable: the message waits for it, and is blocked when it raises."""

    name = "ledger"
    durable = True

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def observe(self, record: DecisionRecord) -> None:
        verdicts = ", ".join(f"{entry.interceptor} {entry.verdict}" for entry in record.entries)
        self.lines.append(f"{record.event} {record.target}: {record.status} ({verdicts})")


async def main() -> None:
    ledger = Ledger()
    async with Chain(observers=[ledger]) as chain:
        chain.add(no_deletes)
        for tool in ("list_files", "delete_file"):
            await chain.execute(event="tools/call", phase="request", payload={"name": tool})
    print("\n".join(ledger.lines))


if __name__ == "__main__":
    anyio.run(main)
