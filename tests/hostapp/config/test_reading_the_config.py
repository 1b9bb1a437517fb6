from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midspan.config import Config, PluginSettings, Settings, load_config, plugin_tables, read_source
from midspan.config._durations import milliseconds
from midspan.config._tables import PLUGIN_KEYS, TOP_KEYS
from midspan.errors import ConfigError


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "midspan.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def refused(tmp_path: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_whole_plugin_table_is_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [plugins.prod]
        enabled = true
        use = "policy"
        distribution = "midspan-policy"
        mode = "audit"
        fail_open = false
        priority = -5
        timeout = "250ms"
        [plugins.prod.config]
        deny = ["rm_*"]
        [plugins.prod.interceptors.listing]
        priority = { response = 7 }
        timeout = "1.5s"
        hooks = [{ events = ["tools/list"], phase = "response" }]
        """,
    )
    prod = config.plugins["prod"]
    assert (prod.enabled, prod.use, prod.distribution, prod.mode) == (True, "policy", "midspan-policy", "audit")
    assert (prod.fail_open, prod.timeout, prod.config) == (False, 250, {"deny": ["rm_*"]})
    assert prod.priority is not None
    assert (prod.priority.request, prod.priority.response) == (-5, -5)
    listing = prod.interceptors["listing"]
    assert listing.priority is not None
    assert (listing.priority.request, listing.priority.response, listing.timeout) == (0, 7, 1500)
    assert listing.hooks is not None
    assert listing.hooks[0].events == ["tools/list"]


def test_tables_keep_the_order_of_the_file(tmp_path: Path) -> None:
    config = read(tmp_path, "[plugins.zeta]\n[plugins.alpha]\n[plugins.mid]\n")
    assert list(config.plugins) == list(config.tables) == ["zeta", "alpha", "mid"]


def test_no_file_is_an_empty_config() -> None:
    config = load_config()
    assert config.plugins == {}
    assert config.source.path is None


def test_the_light_reading_knows_the_same_keys_as_the_model() -> None:
    assert set(PLUGIN_KEYS) == set(PluginSettings.model_fields)
    assert set(TOP_KEYS) == set(Settings.model_fields)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("[plugins.pii]\nenabeld = true\n", ":2:1: plugins.pii.enabeld: ", "unknown key; did you mean 'enabled'?"),
        ("\n[plugin.pii]\nenabled = true\n", ":2:2: plugin: ", "unknown key; did you mean 'plugins'?"),
        (
            "[wholly.x]\n",
            ":1:2: wholly: ",
            "unknown key; known here: audit, gateway, include, interceptor_servers, limits, log, plugins, requires, "
            "servers",
        ),
        ("plugins = 3\n", ":1:1: plugins: ", "must be a table"),
        ("[plugins]\npii = true\n", ":2:1: plugins.pii: ", "must be a table: [plugins.pii]"),
        ("[plugins.PII]\n", ":1:10: plugins.PII: ", "lower-case letters, digits and hyphens"),
        ('[plugins."a.b"]\n', ':1:10: plugins."a.b": ', "lower-case letters"),
        ("[plugins.pii]\nenabled = 'yes'\n", ":2:1: plugins.pii.enabled: ", "must be true or false"),
        ("[plugins.pii]\nuse = 'A b'\n", ":2:1: plugins.pii.use: ", "must be the id of a plugin"),
        ("[plugins.pii]\ndistribution = 3\n", ":2:1: plugins.pii.distribution: ", "must be the name of a distribution"),
        ("[plugins.pii]\nmode = 'block'\n", ":2:1: plugins.pii.mode: ", "must be 'active' or 'audit'"),
        ("[plugins.pii]\nfail_open = 1\n", ":2:1: plugins.pii.fail_open: ", "must be true or false"),
        (
            "[plugins.pii]\npriority = 'high'\n",
            ":2:1: plugins.pii.priority: ",
            "must be a whole number, or a table such",
        ),
        ("[plugins.pii]\npriority = true\n", ":2:1: plugins.pii.priority: ", "must be a whole number, or a table such"),
        (
            "[plugins.pii]\npriority = { requst = 3 }\n",
            ":2:14: plugins.pii.priority.requst: ",
            "unknown key; did you mean 'request'?",
        ),
        (
            "[plugins.pii]\npriority = 2147483648\n",
            ":2:1: plugins.pii.priority: ",
            "must be at most",
        ),
        (
            "[plugins.pii]\ntimeout = 250\n",
            ":2:1: plugins.pii.timeout: ",
            'must be a duration with its unit, such as "250ms"',
        ),
        ("[plugins.pii]\ntimeout = '0s'\n", ":2:1: plugins.pii.timeout: ", "above zero"),
        ("[plugins.pii]\nconfig = 'x'\n", ":2:1: plugins.pii.config: ", "must be a table"),
        (
            "[plugins.pii.interceptors.restore]\nmod = 'audit'\n",
            ":2:1: plugins.pii.interceptors.restore.mod: ",
            "unknown key; did you mean 'mode'?",
        ),
        (
            "[plugins.pii.interceptors.restore]\nhooks = [{ events = ['a'], phase = 'late' }]\n",
            ":2:28: plugins.pii.interceptors.restore.hooks[0].phase: ",
            "must be 'request', 'response' or 'both'",
        ),
        (
            "[plugins.pii.interceptors.restore]\nhooks = [{ phase = 'both' }]\n",
            ":2:10: plugins.pii.interceptors.restore.hooks[0].events: ",
            "is missing; accepted: list of texts",
        ),
    ],
)
def test_a_wrong_key_is_named_with_its_place_and_what_is_accepted(
    text: str, place: str, words: str, tmp_path: Path
) -> None:
    error = refused(tmp_path, text)
    assert str(error).startswith(f"{tmp_path / 'midspan.toml'}{place}")
    assert words in error.problem


def test_an_error_never_shows_the_value_that_stands_there(tmp_path: Path) -> None:
    assert "hunter2" not in str(refused(tmp_path, "[plugins.pii]\nmode = 'hunter2'\n"))


def test_broken_toml_names_file_line_and_column(tmp_path: Path) -> None:
    error = refused(tmp_path, "[plugins.pii]\nenabled = yes\n")
    assert str(error).startswith(f"{tmp_path / 'midspan.toml'}:2:11: ")
    assert (error.line, error.column) == (2, 11)


def test_toml_that_ends_too_early_names_the_last_line(tmp_path: Path) -> None:
    error = refused(tmp_path, '[plugins.pii]\ndistribution = """x\n')
    assert str(error).startswith(f"{tmp_path / 'midspan.toml'}:2: ")
    assert "end of the file" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "[plugins.pii.config]\nx = " + "[" * 5000 + "]" * 5000 + "\n",
        "[plugins.pii.config]\n" + ".".join(["a"] * 3000) + " = '${X}'\n",
        "[servers.x]\nenv = " + "[" * 5000 + "]" * 5000 + "\n",
    ],
)
def test_a_file_nested_beyond_measure_is_refused_and_does_not_crash(text: str, tmp_path: Path) -> None:
    assert "nested too deeply" in str(refused(tmp_path, text))


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "midspan.toml"
    path.write_bytes(b"x = '\xff'\n")
    with pytest.raises(ConfigError, match=r"midspan\.toml:1:6: is not UTF-8 text; save it as UTF-8$"):
        load_config(path)


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)


def test_what_looks_like_a_key_inside_of_a_text_is_not_taken_for_it(tmp_path: Path) -> None:
    error = refused(tmp_path, '[plugins.pii]\nconfig.x = """\nmode = 3\n"""\nmode = 3\n')
    assert error.key == "plugins.pii.mode"
    assert (error.line, error.column) == (5, 1)


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "midspan.toml"
    path.write_bytes(b"\xef\xbb\xbf[plugins.pii]\nenabled = true\n")
    assert load_config(path).plugins["pii"].enabled is True


def test_the_light_reading_answers_as_the_full_one(tmp_path: Path) -> None:
    text = "[plugins.a]\nenabled = true\nuse = 'b'\n[plugins.c]\nenabled = false\ndistribution = 'd'\n[plugins.e]\n"
    config = read(tmp_path, text)
    tables = plugin_tables(read_source(tmp_path / "midspan.toml"))
    assert list(tables) == list(config.plugins)
    for name, table in tables.items():
        settings = config.plugins[name]
        assert (table.enabled, table.use, table.distribution) == (settings.enabled, settings.use, settings.distribution)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1ms", 1), ("250ms", 250), ("1s", 1000), ("1.5s", 1500), ("2 m", 120_000), ("0.25h", 900_000), ("0.001s", 1)],
)
def test_a_duration_is_whole_milliseconds(text: str, expected: int) -> None:
    assert milliseconds(text) == expected


@pytest.mark.parametrize(
    "value", ["", "5", "ms", "-1s", "+1s", "1 d", "1S", "1e3s", "1s 2ms", "0ms", "0.5ms", "١s", 5, 0.5, True, None, []]
)
def test_anything_else_is_no_duration(value: object) -> None:
    with pytest.raises(ValueError, match=r"^must be "):
        milliseconds(value)


@given(st.text() | st.integers() | st.floats())
def test_whatever_is_written_a_duration_is_positive_or_refused(value: object) -> None:
    try:
        duration = milliseconds(value)
    except ValueError:
        return
    assert duration >= 1
