"""A plugin instance's own config: the table, validated by the plugin's model."""

from __future__ import annotations

import os

from pydantic import BaseModel, ValidationError

from midspan.config import Config, Fault, faults_of, filled, unknown_key
from midspan.errors import ConfigError, PluginError, raise_all
from midspan.plugins._causes import cause_of
from midspan.plugins._plugin import Plugin


def configure(plugin: Plugin, instance: str, model: type[BaseModel] | None, config: Config) -> BaseModel | None:
    """Validate one instance's `[plugins.<name>.config]` table.

    Returns:
        The validated config, or None when the plugin has no model.

    Raises:
        PluginError: the table does not fit the model, is not empty though there is none, or refers to a variable or
            file that is not there; names the file, the key and what is accepted there. Several are `ProblemsError`.
    """
    settings = config.plugins.get(instance)
    written = settings.config if settings is not None else {}
    place = ("plugins", instance, "config")

    def refused(fault: Fault) -> PluginError:
        hint = "" if config.source.path is not None else "; there is no config file: write one, name it with --config"
        located = config.source.error(given.without_values(fault.problem) + hint, *place, *fault.keys)
        return plugin.info.error(str(located), instance=instance, place=located)

    try:
        given = filled(written, os.environ, config.source, *place)
    except ConfigError as error:
        raise plugin.info.error(str(error), instance=instance, place=error) from None
    if model is None:
        if not written:
            return None
        raise refused(Fault(keys=(), problem="the plugin takes no config; remove the table"))
    if fault := unknown_key(model, given.table):
        raise refused(fault)
    # A cause would show in a traceback what stands in the config.
    try:
        return model.model_validate(given.table)
    except ValidationError as error:
        problems = [refused(fault) for fault in faults_of(error, model, given.table)]
    except Exception as error:  # noqa: BLE001 - a validator of the plugin's model may raise anything
        problems = [refused(Fault(keys=(), problem=f"its model raised {cause_of(error)}"))]
    raise_all(problems)
    raise AssertionError("unreachable")
