"""Reading of event streams, in as many bytes as come at a time."""

from __future__ import annotations

from collections.abc import Iterator


class Events:
    """Splits a stream into events."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._looked = 0
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """Take a chunk; yields the name and the data of every event that is complete and has data.

        One whose data is empty only names where a client may resume.
        """
        self._rest += chunk
        while (end := self._rest.find(b"\n", self._looked)) >= 0:
            line = bytes(self._rest[:end]).removesuffix(b"\r")
            del self._rest[: end + 1]
            self._looked = 0
            if not line and any(self._data):
                yield self._name, b"\n".join(self._data)
            if not line:
                self._name, self._data = "", []
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            elif field == b"event":
                self._name = value.strip().decode()
        self._looked = len(self._rest)
