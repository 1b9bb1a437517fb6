"""What `uv tool` recorded is kept, to the letter or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from midspan.errors import OperatorError

from .environments import Place, place

RECEIPT = """
[tool]
requirements = [
    { name = "midspan", extras = ["all"], specifier = ">=0.1" },
    { name = "midspan-a", specifier = ">=1,<2", marker = "python_full_version >= '3.11'" },
    { name = "midspan-b", path = "/dist/midspan_b-1-py3-none-any.whl" },
    { name = "midspan-c", directory = "/src/c" },
    { name = "midspan-d", extras = ["x"], editable = "/src/d" },
    { name = "midspan-e", url = "https://files.example/e.zip", subdirectory = "sub" },
    { name = "midspan-f", git = "https://git.example/f?subdirectory=sub&tag=v1#0123456789abcdef" },
    { name = "midspan-g", git = "file:///src/g?rev=main", marker = "sys_platform == 'linux'" },
    { name = "midspan-h", specifier = ">=1" },
]
constraints = [{ name = "anyio", specifier = "<5" }]
overrides = [{ name = "click", specifier = "==8.2" }]
excludes = ["rich"]
build-constraint-dependencies = [{ name = "hatchling", specifier = "<2" }]
python = "3.12"
entrypoints = [
    { name = "midspan", install-path = "/commands/midspan", from = "midspan" },
    { name = "h", install-path = "/commands/h", from = "midspan-h" },
]

[tool.options]
index = [
    { name = "inner", url = "https://index.example/simple", explicit = false, default = false, format = "simple" },
    { url = "https://pypi.example/simple", explicit = false, default = true, format = "simple" },
    { name = "own", url = "https://own.example/simple", explicit = true, default = false, format = "simple" },
]
no-index = false
find-links = ["file:///links", "file:///more"]
prerelease = "allow"
config-settings = { a = "b" }
config-settings-package = { f = { a = "c" } }
build-isolation = { shared-package = ["foo"] }
exclude-newer = "2030-01-02T00:00:00Z"
exclude-newer-package = { a = "2030-01-02T00:00:00Z" }
no-sources = true
no-binary-package = ["x"]
"""
SHARED = [
    *("--index", "inner=https://index.example/simple", "--default-index", "https://pypi.example/simple"),
    *("--find-links", "file:///links", "--find-links", "file:///more", "--prerelease", "allow"),
    *("--config-setting", "a=b", "--config-settings-package", "f:a=c", "--no-build-isolation-package", "foo"),
    *("--exclude-newer", "2030-01-02T00:00:00Z", "--exclude-newer-package", "a=2030-01-02T00:00:00Z"),
    *("--no-sources", "--no-binary-package", "x"),
    *("--constraints", "TEMP/kept-constraints.txt", "--overrides", "TEMP/kept-overrides.txt"),
    *("--excludes", "TEMP/kept-excludes.txt", "--build-constraints", "TEMP/kept-build-constraints.txt"),
]
BEFORE = [
    *("--with", "midspan-a>=1,<2 ; python_full_version >= '3.11'"),
    *("--with", "midspan-b @ file:///dist/midspan_b-1-py3-none-any.whl", "--with", "midspan-c @ file:///src/c"),
    *("--with-editable", "/src/d[x]", "--with", "midspan-e @ https://files.example/e.zip#subdirectory=sub"),
    *("--with", "midspan-f @ git+https://git.example/f@v1#subdirectory=sub"),
    *("--with", "midspan-g @ git+file:///src/g@main ; sys_platform == 'linux'"),
    *("--with-executables-from", "midspan-h>=1"),
]


def of_uv_tool(folder: Path, receipt: str = RECEIPT) -> Place:
    return place(folder, receipt=receipt)


def small(extra: str, requirements: str = '{ name = "midspan" }') -> str:
    return f"[tool]\nrequirements = [{requirements}]\n{extra}\n"


def refusal(folder: Path, receipt: str) -> str:
    here = of_uv_tool(folder, receipt)
    with pytest.raises(OperatorError) as caught:
        here.commands("midspan-pii")
    return caught.value.message.removeprefix(f"{here.environment.prefix / 'uv-receipt.toml'}: ")


def test_it_is_installed_with_the_pins_and_then_recorded_without_them_beside_all_that_was_there(tmp_path: Path) -> None:
    first, second = of_uv_tool(tmp_path).commands("midspan-pii>=1")
    pins = ["--constraints", "TEMP/constraints.txt"]
    assert first == ["BIN/uv", "pip", "install", "--python", "/python", *SHARED, *pins, "midspan-pii>=1"]
    assert second == [
        *("UV_TOOL_DIR=HERE/venvs", "UV_TOOL_BIN_DIR=/commands", "BIN/uv", "tool", "install"),
        *(*SHARED, "--python", "3.12", "midspan[all]>=0.1", *BEFORE, "--with", "midspan-pii>=1"),
    ]


def test_a_newer_wish_replaces_the_recorded_one(tmp_path: Path) -> None:
    project = tmp_path / "b"
    project.mkdir()
    (project / "pyproject.toml").write_text("[project]\nname = 'Midspan.B'\n")
    here = of_uv_tool(
        tmp_path,
        small(
            "", '{ name = "midspan" }, { name = "midspan-a", specifier = ">=1" }, { name = "midspan-b", path = "/b" }'
        ),
    )
    _, command = here.commands("Midspan_A>=2", editable=[str(project)])
    assert command[-5:] == ["midspan", "--with", "Midspan_A>=2", "--with-editable", "HERE/b"]


def test_a_host_that_is_installed_editable_stays_so(tmp_path: Path) -> None:
    _, command = of_uv_tool(tmp_path, small("", '{ name = "midspan", editable = "/src/midspan" }')).commands("a")
    assert command[-4:] == ["--editable", "/src/midspan", "--with", "a"]


def test_a_python_that_was_not_asked_for_is_not_asked_for_by_a_variable(tmp_path: Path) -> None:
    _, command = of_uv_tool(tmp_path, small("")).commands("a")
    assert command[:2] == ["UV_TOOL_DIR=HERE/venvs", "UV_PYTHON="]


@pytest.mark.parametrize(
    ("receipt", "problem"),
    [
        (small("lock = 7"), "it says 'lock'"),
        (small("", '{ name = "midspan" }, { name = "x", index = "own" }'), "the requirement 'x' has 'index'"),
        (
            small("", '{ name = "midspan" }, { name = "x", editable = "/x", marker = "os_name == \'nt\'" }'),
            "the editable requirement 'x' has a marker",
        ),
        (
            small("", '{ name = "midspan" }, { name = "x", git = "https://git.example/x?lfs=true" }'),
            "a repository has 'lfs'",
        ),
        (small("[tool.options]\nretries = 3"), "its option 'retries' is 3"),
        (small("[tool.options]\nbuild-isolation = 'new'"), "its option 'build-isolation' is 'new'"),
    ],
)
def test_what_is_not_known_is_refused_and_not_left_out(receipt: str, problem: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, receipt) == (
        f"{problem}, which midspan cannot keep: add the plugin yourself, with `uv tool install --with`"
    )


@pytest.mark.parametrize("receipt", ["[tool", "", "[tool]\nrequirements = 3", small("entrypoints = [3]")])
def test_a_receipt_that_cannot_be_read_is_named(receipt: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, receipt).startswith("this record of `uv tool` cannot be read: ")


def test_a_receipt_of_another_tool_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, small("", '{ name = "other" }')) == (
        "this record of `uv tool` does not require 'midspan': install that tool again"
    )


def test_an_environment_of_uv_tool_without_uv_is_left_alone(tmp_path: Path) -> None:
    here = place(tmp_path, receipt=RECEIPT, programs=["pipx"])
    with pytest.raises(OperatorError) as caught:
        here.commands("midspan-pii")
    assert caught.value.message == (
        "midspan was installed with `uv tool`, and uv is not on PATH: put it there, and run this command again"
    )
