"""A judgement, and what is done with its outcome."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any

from midspan.relay import Action


class Following(Coroutine[Any, Any, Action]):
    """Runs a judgement; also one that ends before it began is seen to end, which a coroutine around it would not tell.

    Args:
        judgement: is awaited or closed by this.
        then: turns its action into another.
        over: called when it has ended, in whatever way; maybe more than once.
    """

    def __init__(
        self,
        judgement: Coroutine[Any, Any, Action],
        *,
        then: Callable[[Action], Action] | None = None,
        over: Callable[[], None] | None = None,
    ) -> None:
        self._judgement = judgement
        self._then = then
        self._over = over

    def send(self, value: Any) -> Any:
        """Go on."""
        return self._step(lambda: self._judgement.send(value))

    def throw(self, *error: Any) -> Any:
        """Go on with an error."""
        return self._step(lambda: self._judgement.throw(*error))

    def _step(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except StopIteration as stop:
            self._end()
            action: Action = stop.value if self._then is None else self._then(stop.value)
            raise StopIteration(action) from None
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """End it."""
        self._judgement.close()
        self._end()

    def _end(self) -> None:
        if self._over is not None:
            self._over()

    def __await__(self) -> Generator[Any, Any, Action]:
        """Run it to its end."""
        try:
            action = yield from self._judgement.__await__()
        finally:
            self._end()
        return action if self._then is None else self._then(action)
