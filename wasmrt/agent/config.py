"""The operator's whole configuration file: the settings of a runtime, and the policy of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from wasmrt.agent.policy import POLICY_SETTINGS, ToolPolicy, read_policy
from wasmrt.core.strict_toml import Mistake
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.runtime.config_file import FileSettings, parse_file_settings, read_config_text
from wasmrt.runtime.config_settings import RUNTIME_SETTINGS

SETTINGS = (*RUNTIME_SETTINGS, *POLICY_SETTINGS)
"""Descriptions of all settings of the operator's file."""


@dataclass(frozen=True)
class OperatorConfig(FileSettings):
    """The settings of the operator's file. The defaults apply if there is no file."""

    policy: ToolPolicy = field(default_factory=ToolPolicy)


def read_config_file(path: Path) -> OperatorConfig:
    """Read the operator's TOML file. If the file does not exist, all settings have their defaults.

    Raises:
        ConfigFileError: the file cannot be read, a section or key in it is unknown, or a value is invalid; the error
            lists every mistake.
    """
    text = read_config_text(path)
    return OperatorConfig(NetworkConfig()) if text is None else parse_config(path, text)


def parse_config(path: Path, text: bytes) -> OperatorConfig:
    """Return the settings of a text that is, or will be, the operator's file at `path`.

    Raises:
        ConfigFileError: see `read_config_file`.
    """
    policy = ToolPolicy()

    def read(tree: Mapping[str, Any], folder: Path, mistakes: list[Mistake]) -> None:
        nonlocal policy
        policy = read_policy(tree, folder, mistakes)

    settings = parse_file_settings(path, text, read)
    given = {each.name: getattr(settings, each.name) for each in fields(FileSettings)}
    return OperatorConfig(**given, policy=policy)
