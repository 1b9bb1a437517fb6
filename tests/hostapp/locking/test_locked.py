"""What `--locked` refuses, and the sentence it gives."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from midspan.errors import OperatorError
from midspan.locking import LockError, read_lock
from midspan.plugins import Builder

from .conftest import CONFIG, GUARD, PACKAGE, Acme

HASH = "sha256:[0-9a-f]{12}…"


def start(acme: Acme, **arguments: Any) -> None:
    """Build what a start would build."""
    Builder(
        config=acme.config,
        gives=("session", "store", "tools", "ask"),
        locked=read_lock(acme.lock_file),
        **arguments,
    ).assembly()


def refusals(acme: Acme, **arguments: Any) -> list[str]:
    """Return all differences for which a start is refused. None of the plugin's code may have run."""
    with pytest.raises(LockError) as refused:
        start(acme, **arguments)
    first = str(refused.value.differences[0])
    assert refused.value.message.startswith(f"--locked: {first} (")
    return [str(one) for one in refused.value.differences]


def nothing_ran() -> bool:
    return PACKAGE not in sys.modules


def test_what_is_as_it_was_locked_starts(acme: Acme) -> None:
    start(acme)
    assert not nothing_ran()


def test_one_changed_byte_stops_the_start_before_it_runs(acme: Acme) -> None:
    acme.file("_words.py").write_text('WORD = "rn"\n')
    (told,) = refusals(acme)
    assert re.fullmatch(f"midspan-acme 1.0: locked_acme/_words.py: expected {HASH}, found {HASH}", told)
    assert nothing_ran()


def test_the_hashes_in_the_record_are_not_believed(acme: Acme) -> None:
    record = acme.site / "midspan_acme-1.0.dist-info" / "RECORD"
    record.write_text(record.read_text().replace("bm9uZQ", "YW55"))
    start(acme)


def test_a_data_file_of_the_package_counts(acme: Acme) -> None:
    acme.file("py.typed").write_text("partial\n")
    assert refusals(acme)[0].startswith("midspan-acme 1.0: locked_acme/py.typed: expected sha256:e3b0c44298fc…, found")


def test_a_patch_release_that_fails_open_stops_the_start_by_its_version(acme: Acme) -> None:
    acme.uninstall()
    acme.install(
        version="1.0.1",
        guard=GUARD.replace('["tools/call"], phase="request"', '["tools/call"], phase="request", fail_open=True'),
    )
    told = refusals(acme)
    assert told[0] == "midspan-acme 1.0.1: version: expected 1.0, found 1.0.1"
    assert any("locked_acme/__init__.py" in one for one in told[1:])
    assert nothing_ran()


def test_another_distribution_with_the_same_id_stops_the_start(acme: Acme) -> None:
    acme.uninstall()
    acme.install("evil-acme")
    told = refusals(acme)
    assert told[0] == "plugin 'acme': expected midspan-acme 1.0, found evil-acme 1.0"
    assert "midspan-acme: expected 1.0, found not installed" in told
    assert "evil-acme: expected no such distribution, found 1.0" in told
    assert nothing_ran()


def test_a_second_owner_of_the_id_stops_the_start(acme: Acme) -> None:
    acme.install("evil-acme")
    assert refusals(acme)[0] == ("plugin 'acme': expected midspan-acme 1.0, found evil-acme 1.0 and midspan-acme 1.0")


def test_a_distribution_that_vanished_stops_the_start(acme: Acme) -> None:
    acme.uninstall()
    told = refusals(acme)
    assert told[0] == "plugin 'acme': expected midspan-acme 1.0, found none that is enabled"
    assert "midspan-acme: expected 1.0, found not installed" in told


def test_a_guard_that_is_switched_off_stops_the_start(acme: Acme) -> None:
    off = "plugin 'acme': expected midspan-acme 1.0, found none that is enabled"
    assert refusals(acme, no_plugins=["acme"]) == [off]
    acme.config.write_text("[plugins.acme]\nenabled = false\n")
    assert refusals(acme) == [off]


def test_a_plugin_that_is_newly_enabled_stops_the_start(acme: Acme) -> None:
    assert refusals(acme, plugins=["policy"])[0] == (
        "plugin 'policy': expected no such plugin in the lock, found midspan-policy 0.1.0"
    )


@pytest.mark.parametrize("file", ["extra.py", "sub/__init__.py", "_words.pyc", "_words.cpython-311-x.so", "words.txt"])
def test_a_file_that_was_dropped_into_the_package_stops_the_start(acme: Acme, file: str) -> None:
    acme.file(file).parent.mkdir(exist_ok=True)
    acme.file(file).write_bytes(b"")
    (told,) = refusals(acme)
    assert told == (
        f"midspan-acme 1.0: locked_acme/{file}: expected no such file, found sha256:e3b0c44298fc… ({acme.file(file)})"
    )


def test_a_file_in_a_folder_that_is_a_link_counts(acme: Acme, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "more.py").write_text("")
    (tmp_path / "elsewhere" / "round").symlink_to(tmp_path / "elsewhere")
    acme.file("linked").symlink_to(tmp_path / "elsewhere")
    (told,) = refusals(acme)
    assert told.startswith("midspan-acme 1.0: locked_acme/linked/more.py: expected no such file, found sha256:")


def test_bytecode_beside_its_source_does_not_count(acme: Acme) -> None:
    acme.file("__pycache__").mkdir(exist_ok=True)
    acme.file("__pycache__/whatever.cpython-311.pyc").write_bytes(b"x")
    start(acme)


def test_a_file_that_was_taken_away_stops_the_start(acme: Acme) -> None:
    acme.file("py.typed").unlink()
    (told,) = refusals(acme)
    assert told.startswith("midspan-acme 1.0: locked_acme/py.typed: expected sha256:e3b0c44298fc…, found no such file")


@pytest.mark.parametrize("form", ["package", "module"])
def test_something_earlier_on_the_import_path_that_shadows_the_package_stops_the_start(
    acme: Acme, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = tmp_path / "early"
    shadow = early / (f"{PACKAGE}.py" if form == "module" else f"{PACKAGE}/__init__.py")
    shadow.parent.mkdir(parents=True)
    shadow.write_text(GUARD.replace("from locked_acme._words import WORD", "WORD = 'none'"))
    monkeypatch.syspath_prepend(str(early))  # pyright: ignore[reportUnknownMemberType] - untyped in pytest
    told = refusals(acme)
    assert any(str(shadow) in one and "found sha256:" in one for one in told)
    assert nothing_ran()


def test_a_part_of_the_package_earlier_on_the_import_path_hides_the_rest(
    acme: Acme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "early" / PACKAGE
    part.mkdir(parents=True)
    for file in ("__init__.py", "_words.py"):
        (part / file).write_bytes(acme.file(file).read_bytes())
    monkeypatch.syspath_prepend(str(part.parent))  # pyright: ignore[reportUnknownMemberType] - untyped in pytest
    assert refusals(acme) == [
        f"midspan-acme 1.0: locked_acme/py.typed: expected sha256:e3b0c44298fc…, found no such file ({part}/)"
    ]


def test_an_archive_that_shadows_the_package_is_refused(
    acme: Acme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "early.zip"
    with ZipFile(archive, "w") as file:
        file.writestr(f"{PACKAGE}/__init__.py", "")
    monkeypatch.syspath_prepend(str(archive))  # pyright: ignore[reportUnknownMemberType] - untyped in pytest
    with pytest.raises(OperatorError, match=r"import of locked_acme leads to .*early\.zip.*, which cannot be locked"):
        start(acme)
    assert nothing_ran()


def test_the_text_of_the_entry_point_counts(acme: Acme) -> None:
    entry_points = acme.site / "midspan_acme-1.0.dist-info" / "entry_points.txt"
    entry_points.write_text("[midspan.plugins]\nacme = locked_acme._words\n")
    told = refusals(acme)
    assert told[0] == "plugin 'acme' (midspan-acme 1.0): entry point: expected locked_acme, found locked_acme._words"
    assert told[1].startswith("midspan-acme 1.0: .dist-info/entry_points.txt: expected sha256:")


def test_how_it_was_installed_does_not_count(acme: Acme) -> None:
    info = acme.site / "midspan_acme-1.0.dist-info"
    (info / "INSTALLER").write_text("uv\n")
    (info / "REQUESTED").write_text("")
    (info / "direct_url.json").write_text("{}")
    start(acme)


def test_a_distribution_without_a_record_is_locked_by_its_package(acme: Acme, locks: Callable[[], int]) -> None:
    acme.uninstall()
    acme.install(record=False)
    assert locks() == 0
    start(acme)
    acme.file("_words.py").write_text('WORD = "rn"\n')
    assert refusals(acme)[0].startswith("midspan-acme 1.0: locked_acme/_words.py: expected sha256:")


@pytest.fixture
def locks(acme: Acme) -> Callable[[], int]:
    from midspan.cli._group import invoke

    from .conftest import forget

    def write(*options: str) -> int:
        code = invoke(["plugins", "lock", "--config", str(acme.config), *options])
        forget()
        return code

    return write


def test_another_version_of_a_dependency_stops_the_start(
    acme: Acme, locks: Callable[[], int], fake_distribution: Callable[..., Path]
) -> None:
    requires = ["midspan-sdk<0.2,>=0.1", "acme-words[more]", "nobody-has-this ; python_version < '3'"]
    acme.uninstall()
    acme.install(requires=requires)
    words = {"version": "2.0", "requires": ["acme-extra ; extra == 'more'", "acme-other ; extra == 'rest'"]}
    fake_distribution("acme-words", **words, modules={"acme_words": "x = 1"}, folder="site")
    fake_distribution("acme-extra", version="5", requires=[], modules={"acme_extra": ""})
    fake_distribution("acme-other", version="6", requires=[], modules={"acme_other": ""})
    assert locks() == 0
    locked = json.loads(acme.lock_file.read_text())["distributions"]
    assert {"acme-words", "acme-extra", "pydantic", "click", "mcp"} <= locked.keys()
    assert "acme-other" not in locked
    assert set(locked["acme-words"]) == {"version", "hash"}
    start(acme)

    (acme.site / "acme_words.py").write_text("x = 2")
    assert re.fullmatch(f"acme-words 2.0: its files together: expected {HASH}, found {HASH}", refusals(acme)[0])
    (acme.site / "acme_words-2.0.dist-info").rename(acme.site / "acme_words-2.1.dist-info")
    metadata = acme.site / "acme_words-2.1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 2.0", "Version: 2.1"))
    assert refusals(acme) == ["acme-words 2.1: version: expected 2.0, found 2.1"]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("priority = 0", "acme.first (midspan-acme 1.0): priority (request): expected 10, found 0"),
        ("fail_open = true", "acme.check (midspan-acme 1.0): fail_open: expected false, found true"),
        ("mode = 'audit'", "acme.check (midspan-acme 1.0): mode: expected active, found audit"),
        ("timeout = '3s'", "acme.first (midspan-acme 1.0): timeout_ms: expected 250, found 3000"),
    ],
)
def test_another_policy_in_the_config_stops_the_start(acme: Acme, table: str, told: str) -> None:
    acme.config.write_text(f"{CONFIG}{table}\n")
    assert told in refusals(acme)


def test_other_hooks_in_the_config_stop_the_start(acme: Acme) -> None:
    hooks = 'hooks = [{ events = ["tools/call"], phase = "request" }]'
    acme.config.write_text(f"{CONFIG}[plugins.acme.interceptors.second]\n{hooks}\n")
    assert refusals(acme) == [
        "acme.second (midspan-acme 1.0): hooks: "
        'expected [{"events": ["tools/*"], "phase": "request"}], found [{"events": ["tools/call"], "phase": "request"}]'
    ]


def test_another_order_is_told_beside_the_priority(acme: Acme) -> None:
    acme.config.write_text(f"{CONFIG}[plugins.acme.interceptors.first]\npriority = 30\n")
    assert refusals(acme) == [
        "acme.first (midspan-acme 1.0): priority (request): expected 10, found 30",
        "acme.first (midspan-acme 1.0): priority (response): expected 10, found 30",
        "the chain: order of mutators (request): expected acme.first, acme.second, found acme.second, acme.first",
    ]


def test_another_instance_of_a_locked_plugin_stops_the_start(acme: Acme) -> None:
    acme.config.write_text(f"{CONFIG}[plugins.twin]\nuse = 'acme'\nenabled = true\n")
    told = refusals(acme)
    assert "twin.check (midspan-acme 1.0): expected none of that name, found validation" in told
    assert "observer twin.log (midspan-acme 1.0): expected none of that name, found one" in told


def test_a_plugin_file_is_locked_by_its_name_and_bytes(acme: Acme, locks: Callable[..., int], tmp_path: Path) -> None:
    file = tmp_path / "no_rm.py"
    file.write_text(GUARD.replace("from locked_acme._words import WORD", "WORD = 'rm'"))
    assert locks("--plugin-file", str(file)) == 0
    assert str(tmp_path) not in acme.lock_file.read_text()
    start(acme, plugin_files=[file])
    assert refusals(acme)[0] == "plugin 'no-rm': expected file no_rm.py, found none that is enabled"
    file.write_text(f"{file.read_text()}\n")
    (told,) = refusals(acme, plugin_files=[file])
    assert re.fullmatch(f"plugin 'no-rm' \\(file no_rm.py\\): expected {HASH}, found {HASH}", told)


def test_a_lock_of_another_python_or_platform_is_refused_in_one_line(acme: Acme) -> None:
    lock = json.loads(acme.lock_file.read_text())
    there = lock["environment"]
    lock["environment"] = "cpython 3.9, beos i386"
    acme.lock_file.write_text(json.dumps(lock))
    assert refusals(acme) == [f"the environment: expected cpython 3.9, beos i386, found {there}"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is damaged: line 1: Expecting property name"),
        ("[]", "is damaged: Input should be "),
        ('{"version": 2}', "is of version 2, written by a newer midspan; this one reads version 1: update midspan"),
        ('{"version": 0}', "is damaged: "),
        ('{"version": 1}', "is damaged: about: Field required"),
        ("[" * 100_000, "is damaged: "),
        ("\xff", "is damaged: it is not UTF-8 text"),
    ],
)
def test_a_lock_that_cannot_be_read_is_refused(acme: Acme, text: str, told: str) -> None:
    acme.lock_file.write_bytes(text.encode("latin-1"))
    with pytest.raises(OperatorError) as refused:
        start(acme)
    assert refused.value.message.startswith(f"{acme.lock_file}: {told}")
    assert "`midspan plugins lock`" in refused.value.message
    assert nothing_ran()


def test_without_a_lock_nothing_starts(acme: Acme) -> None:
    acme.lock_file.unlink()
    with pytest.raises(OperatorError, match="there is no lock; write it with `midspan plugins lock`"):
        start(acme)
