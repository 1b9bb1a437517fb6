"""`midspan plugins enable` and `disable`: write into the config what runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from midspan.cli._output import echo, print_warning
from midspan.config import ConfigSource, PluginTable, find_config, plugin_tables, read_source, set_enabled, user_config
from midspan.errors import OperatorError, PluginError, did_you_mean
from midspan.plugins import PluginInfo, discover, owner_of


def switch(names: Sequence[str], config: Path | None, *, enabled: bool) -> None:
    """Enable or disable plugins in the config, and say what was done.

    Args:
        names: names of tables, or ids of plugins.
        config: the file given by `--config`, or None.
        enabled: what the tables are to say.

    Raises:
        OperatorError: a name means nothing, its plugin cannot run, or a file cannot be changed. What can be found out
            before anything is written leaves all files as they were.
    """
    path = _file(config)
    source = read_source(path if path.exists() else None)
    tables = plugin_tables(source)
    found = discover()
    chosen: dict[str, None] = {}
    for name in dict.fromkeys(names):
        own = _enabling(name, found, tables) if enabled else _disabling(name, found, tables)
        if not own:
            echo(f"{name} is not enabled in {path}")
        chosen.update(dict.fromkeys(own))
    word = "enabled" if enabled else "disabled"
    for file, instances in _by_file(chosen, source, path).items():
        # A table that does not say is off.
        settled = [name for name in instances if bool(tables.get(name, PluginTable()).enabled) is enabled]
        changed = set_enabled(file, [name for name in instances if name not in settled], enabled=enabled)
        for name in instances:
            echo(f"{word} {name} in {file}" if name in changed else f"{name} is {word} already in {file}")


def _file(named: Path | None) -> Path:
    own = user_config()
    if named is not None and named == own and not named.exists():
        return named
    path = find_config(named) or own
    if path is None:
        raise OperatorError("you have no config folder; name the file with --config")
    return path


def _enabling(name: str, found: Sequence[PluginInfo], tables: Mapping[str, PluginTable]) -> list[str]:
    """Return the tables that are to be enabled; one of them may not be there yet."""
    if name in tables:
        instances, plugin = [name], tables[name].use or name
    else:
        instances, plugin = _of_plugin(name, tables) or [name], name
    if all(info.id != plugin for info in found):
        if name not in tables:
            raise _unknown(name, found, tables)
        print_warning(f"[plugins.{name}]: no installed plugin has the id {plugin!r}; `midspan plugins install` it")
        return instances
    try:
        owner_of(found, tables, plugin)
    except PluginError as error:
        raise error.with_hint(f"{name} is as it was") from None
    return instances


def _disabling(name: str, found: Sequence[PluginInfo], tables: Mapping[str, PluginTable]) -> list[str]:
    """Return the tables that are to be disabled: the one of that name, and all of the plugin of that id."""
    instances = [table for table in tables if table == name or table in _of_plugin(name, tables)]
    if not instances and all(info.id != name for info in found):
        raise _unknown(name, found, tables)
    return instances


def _of_plugin(plugin: str, tables: Mapping[str, PluginTable]) -> list[str]:
    return [name for name, table in tables.items() if (table.use or name) == plugin]


def _unknown(name: str, found: Sequence[PluginInfo], tables: Mapping[str, PluginTable]) -> OperatorError:
    hint = did_you_mean(name, {*tables, *(info.id for info in found)})
    install = "; `midspan plugins install PACKAGE` installs one, `midspan plugins list` shows those that are there"
    return OperatorError(f"no installed plugin has the id {name!r}, and no table its name{hint or install}")


def _by_file(instances: Iterable[str], source: ConfigSource, default: Path) -> dict[Path, list[str]]:
    """Sort tables by the file in which each stands, or would."""
    files: dict[Path, list[str]] = {}
    for name in instances:
        file, _ = source.place("plugins", name)
        files.setdefault(default if file is None else file.path, []).append(name)
    return files
