"""Read the section [leaks] of the configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.setting_commands import append_command
from wasmrt.core.strict_toml import ValueReader
from wasmrt.egress.leaks import DECODE_LIMIT_RULE, Action, Direction, LeakDetector, read_rule_file


def _read_leak_rules(value: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(value, str):
        raise ConfigurationError("rules must be a path", hint='write it like rules = "leak-rules.toml"')
    rules = read_rule_file(folder / value)
    LeakDetector(rules=rules)  # rejects duplicate names
    return {"leak_rules": rules}


def _read_leak_actions(value: Any, _: Path) -> dict[str, Any]:
    hint = 'write it like actions = { "jwt" = "warn", "gitlab-pat" = { inward = "block" } }'
    if not isinstance(value, dict):
        raise ConfigurationError("actions must be a table that maps rule names to actions", hint=hint)
    overrides: dict[str, Action | dict[Direction, Action]] = {}
    for rule, chosen in value.items():
        try:
            if isinstance(chosen, dict):
                overrides[rule] = {Direction(direction): Action(action) for direction, action in chosen.items()}
            else:
                overrides[rule] = Action(chosen)
        except ValueError:
            raise ConfigurationError(
                f"actions must set {rule!r:.80} to one of {', '.join(Action)}", hint=hint
            ) from None
        # SECURITY: content that cannot be scanned is withheld. Only settings named unsafe make exceptions.
        if rule == DECODE_LIMIT_RULE and chosen != Action.BLOCK:
            hint = append_command("network.unsafe_unscanned_responses", "files.example.com/releases/ application/zip")
            raise ConfigurationError(f'actions cannot change the rule "{rule}"', hint=hint)
    return {"leak_overrides": overrides}


LEAK_SECTION: dict[str, dict[str, ValueReader]] = {
    "leaks": {"rules": _read_leak_rules, "actions": _read_leak_actions},
}
