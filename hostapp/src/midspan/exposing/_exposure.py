"""What a gateway exposes: one for all of its conversations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from midspan.errors import OperatorError
from midspan.exposing._judge import SERVED
from midspan.interception import payload_of_answer
from midspan.relay import INVALID_PARAMS, MessageId, error_message
from midspan_sdk import Chain, DefinitionError, InvocationError
from midspan_sdk.serving import InterceptorService, add_capability, error_data
from midspan_sdk.wire import EXECUTION_FAILED, EXECUTION_FAILED_MESSAGE, INVOKE_METHOD, LIST_METHOD

logger = logging.getLogger("midspan.gateway")

MAX_INVOCATIONS: Final = 64
"""How many invocations of clients run at once; further ones wait."""


class Exposure:
    """The interceptors of a chain that run in this process, served as they are configured there.

    What they keep for invocations, `session_state` and `store`, is their own: a client that invokes them does not touch
    what they know of the traffic that they guard.

    Args:
        chain: whose they are. Those that it has when `start` is called.
    """

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._service: InterceptorService | None = None
        self._room = asyncio.Semaphore(MAX_INVOCATIONS)

    def start(self) -> None:
        """Take the interceptors that the chain has now.

        Raises:
            OperatorError: one of them cannot be served.
        """
        try:
            self._service = InterceptorService(*self._chain.local_interceptors)
        except DefinitionError as error:
            raise OperatorError(f"expose_interceptors: {error}") from error

    @property
    def service(self) -> InterceptorService:
        """What answers."""
        if self._service is None:
            self.start()
        assert self._service is not None
        return self._service

    @staticmethod
    def serves(method: str) -> bool:
        """Tell whether the gateway answers requests of this method by itself."""
        return method in SERVED

    def listing(self, message_id: MessageId, params: Mapping[str, Any], *, stateless: bool) -> dict[str, Any]:
        """Answer `interceptors/list`."""
        try:
            listed = self.service.listing(params)
        except ValueError as error:
            return error_message(message_id, INVALID_PARAMS, "Invalid params", {"reason": str(error)})
        return _answer(message_id, payload_of_answer(listed, LIST_METHOD, stateless=stateless))

    async def invocation(self, message_id: MessageId, params: Mapping[str, Any], *, stateless: bool) -> dict[str, Any]:
        """Answer `interceptor/invoke`."""
        try:
            async with self._room:
                result = await self.service.invoke(params)
        except InvocationError as error:
            return error_message(message_id, error.code, error.message, error_data(error))
        except Exception:
            logger.exception("an invocation failed")
            return error_message(message_id, EXECUTION_FAILED, EXECUTION_FAILED_MESSAGE)
        return _answer(message_id, payload_of_answer(result, INVOKE_METHOD, stateless=stateless))

    def advertised(self, result: dict[str, Any], *, handshake: bool) -> dict[str, Any]:
        """Return what a server says of itself, with the capability.

        Args:
            result: of `initialize` or `server/discover`.
            handshake: whether it is that of `initialize`.
        """
        return add_capability(result, self.service.settings(), handshake=handshake)


def _answer(message_id: MessageId, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, "result": result}
