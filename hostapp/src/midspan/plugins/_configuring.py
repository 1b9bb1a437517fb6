"""A plugin instance's own config: the table, validated by the plugin's model."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from midspan.config import Config, Fault, fault_of, unknown_key
from midspan.plugins._causes import cause_of
from midspan.plugins._plugin import Plugin


def configure(plugin: Plugin, instance: str, model: type[BaseModel] | None, config: Config) -> BaseModel | None:
    """Validate one instance's `[plugins.<name>.config]` table.

    Returns:
        The validated config, or None when the plugin has no model.

    Raises:
        PluginError: the table does not fit the model, or is not empty though there is none; names the file, the key
            and what is accepted there.
    """
    settings = config.plugins.get(instance)
    table = settings.config if settings is not None else {}

    def refused(fault: Fault) -> Exception:
        place = "" if config.source.path is not None else "; there is no config file: write one, name it with --config"
        located = config.source.error(fault.problem + place, "plugins", instance, "config", *fault.keys)
        return plugin.info.error(str(located), instance=instance)

    if model is None:
        if not table:
            return None
        raise refused(Fault(keys=(), problem="the plugin takes no config; remove the table"))
    if fault := unknown_key(model, table):
        raise refused(fault)
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise refused(fault_of(error, model)) from error
    except Exception as error:
        # A validator of the plugin's model may raise anything.
        raise refused(Fault(keys=(), problem=f"its model raised {cause_of(error)}")) from error
