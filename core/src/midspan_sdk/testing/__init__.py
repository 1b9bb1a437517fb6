"""Test a plugin: build its interceptors as a host does, run messages through them, check that it conforms.

```python
from midspan_sdk.testing import check_plugin, run

def test_rm_is_denied():
    call = {"name": "shell", "arguments": {"command": "rm -rf /"}}
    assert run(no_rm, event="tools/call", phase="request", payload=call).status == "validation_failed"

def test_the_plugin_conforms():
    check_plugin(my_plugin, config={"rules": ["..."]})
```

Nothing here needs pytest; `check_plugin` raises `AssertionError`, which every test runner shows.
"""

from midspan_sdk.testing._check import check_plugin
from midspan_sdk.testing._plugin import chain_with, interceptors_from
from midspan_sdk.testing._run import run

__all__ = ["chain_with", "check_plugin", "interceptors_from", "run"]
