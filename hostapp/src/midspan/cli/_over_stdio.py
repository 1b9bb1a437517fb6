"""Commands whose stdout belongs to the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from midspan.cli._ending import end_process
from midspan.cli._output import print_error
from midspan.errors import operator_error_in


def over_stdio(work: Callable[[tuple[int, int]], int]) -> NoReturn:
    """Run a command that speaks a protocol over stdio, and end the process with its exit code.

    The operator's mistake prints one line, and is told to the client too: as the answer to its first request.

    Args:
        work: gets the descriptors of the protocol's input and output; returns the exit code.
    """
    from midspan.relay import answer_failed_start, claim_standard_streams

    streams = claim_standard_streams()
    try:
        code = work(streams)
    except Exception as error:
        mistake = operator_error_in(error)
        if mistake is None:
            raise
        print_error(mistake.message)
        answer_failed_start(streams, f"midspan: {mistake.message}")
        code = mistake.exit_code
    end_process(code)
