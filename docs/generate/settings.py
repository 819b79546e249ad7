"""List the settings of the operator's file, from `wasmrt.agent.config.SETTINGS`."""

from __future__ import annotations

from wasmrt.agent.config import SETTINGS
from wasmrt.core.setting_commands import format_value
from wasmrt.core.settings import Setting

_SHORT = {"true or false": " (bool)", "whole number": " (integer)", "number": " (number)", "table": " (table)"}
_SHORT |= {"list of strings": " (list)", "text": ""}


def settings() -> str:
    """Return a list of the settings, with their types (or units) and defaults."""
    return "\n".join(map(_line, SETTINGS))


def _line(setting: Setting) -> str:
    kind = f" ({setting.unit.partition(',')[0]})" if setting.unit else _SHORT[setting.type]
    if setting.default:
        kind = f" ({kind.strip(' ()') or 'text'}, `{format_value(setting.default)}`)"
    return f"- `{setting.key}`{kind}: {setting.text}"
