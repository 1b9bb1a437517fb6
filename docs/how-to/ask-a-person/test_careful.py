"""Tests of the plugin, without a client and without a person."""

from typing import Any

import careful
import pytest

from midspan_sdk.testing import interceptors_from, run

GO_ON = "delete_folder is about to run. Go on?"
BELOW = "Everything below it, too?"


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ({GO_ON: True, BELOW: {"reason": "it is a copy"}}, "success"),
        ({GO_ON: True, BELOW: None}, "validation_failed"),
        ({GO_ON: False}, "validation_failed"),
    ],
)
def test_a_folder_is_deleted_when_a_person_says_so_twice(answers: dict[str, Any], status: str) -> None:
    call = {"name": "delete_folder", "arguments": {"path": "/a", "recursive": True}}
    interceptors = interceptors_from(careful)
    result = run(*interceptors, event="tools/call", phase="request", payload=call, answers=answers)
    assert result.status == status
