"""List the settings of the operator's file, from `wasmrt.agent.config.SETTINGS`."""

from __future__ import annotations

from wasmrt.agent.config import SETTINGS
from wasmrt.core.setting_commands import format_value
from wasmrt.core.settings import Setting


def settings() -> str:
    """Return a table of the settings."""
    rows = ["| setting | purpose | type | default |", "|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, SETTINGS)])


def _row(setting: Setting) -> str:
    kind = f"{setting.type}, {setting.unit}" if setting.unit else setting.type
    default = "" if setting.default is None else f"`{format_value(setting.default)}`"
    return f"| `{setting.key}` | {setting.text} | {kind} | {default} |"
