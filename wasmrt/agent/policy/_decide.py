"""Permissions, presets and filters of a policy, and their decisions about a tool.

A denial contains the configuration change that would allow the tool.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache

from blake3 import blake3

from wasmrt.agent.policy._flows import FlowPolicy
from wasmrt.capabilities import path_problem, plain_path
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Decision, Reason
from wasmrt.core.names import fold_name, offered_name, spelling
from wasmrt.core.setting_commands import append_command, set_command
from wasmrt.core.tool_defaults import Offer
from wasmrt.core.traits import Traits

Names = str | tuple[str, ...]
"""The name of a tool, or its name followed by its aliases."""


def remove_aliases(names: Names) -> str:
    """Return the name of a tool without its aliases."""
    return names if isinstance(names, str) else names[0]


def fits(names: Names, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns matches a tool's name or one of the tool's aliases, in any spelling.

    A pattern without `*` matches every spelling under which a model can call the tool.
    """
    # SECURITY: a rule for an alias also applies to the tool, because a model can call the tool by the alias.
    given = (names,) if isinstance(names, str) else names
    spelled = {each for name in given for each in (fold_name(name), fold_name(offered_name(name)))}
    return any(_matches_pattern(one, pattern) for pattern in patterns for one in spelled)


@lru_cache(maxsize=4096)
def _matches_pattern(spelled: str, pattern: str) -> bool:
    # Only * is a wildcard.
    if "*" not in pattern:
        return spelling(spelled) == spelling(pattern)
    literal = "".join(f"[{mark}]" if mark in "?[]" else mark for mark in fold_name(pattern))
    return fnmatchcase(spelled, literal)


class Permission(StrEnum):
    """An operator's permission for all calls of a tool.

    Examples:
        >>> from wasmrt import Permission
        >>> [permission.value for permission in Permission]
        ['allow', 'ask', 'deny']
    """

    ALLOW = "allow"
    """The operator approves the calls: no approval is requested, and the receipt records the operator's rule."""
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A named set of tools, with common restrictions.

    Raises:
        ConfigurationError: a path in `allow_write_paths` is absolute or leaves the workspace.

    Examples:
        >>> from wasmrt import Preset, ToolPolicy
        >>> review = Preset(name="review", tools=("read_*",), read_only=True)
        >>> ToolPolicy(presets={"review": review}, preset="review").active.read_only
        True
    """

    name: str
    tools: tuple[str, ...] = ()
    """Names of tools, or patterns with `*`. All other tools are denied."""
    allow_network: bool = False
    allow_write_paths: tuple[str, ...] = ()
    """Folders of the workspace that tools may write to."""
    read_only: bool = False
    flows: FlowPolicy | None = None
    """The flow policy for every call under this preset."""

    def __post_init__(self) -> None:
        for path in self.allow_write_paths:
            if path_problem(path) is not None or not plain_path(path):
                raise ConfigurationError(
                    f"the write path {path!r:.80} leaves the workspace", hint="use a path like 'out' or 'notes/daily'"
                )

    @cached_property
    def digest(self) -> str:
        """BLAKE3 digest of the preset's content, in hexadecimal. Every decision by the preset contains this digest."""
        allowed = [
            self.name,
            self.allow_network,
            self.read_only,
            sorted(set(self.tools)),
            sorted(set(self.allow_write_paths)),
        ]
        return json_digest(allowed if self.flows is None else [*allowed, self.flows.digest])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalFilter:
    """The filter for external tools, in addition to presets and rules.

    By default, it allows only the tools that a user agreed to offer to agents.
    """

    allow_external: bool | None = None
    """True to allow all external tools, False to deny all; None to allow the tools that a user offered."""
    external_allow_list: tuple[str, ...] = ()
    """If it is not empty, the only external tools that may be allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExfiltrationGuard:
    """A guard that denies every tool that uses the network, except the tools in `allow_tools`."""

    enabled: bool = False
    allow_tools: tuple[str, ...] = ()


def decide_filter(rule: ExternalFilter, names: Names, *, external: bool, offer: Offer | None = None) -> Decision | None:
    """Decide whether the filter for external tools allows a tool. The result is None if the tool is not external.

    SECURITY: the operator's settings take precedence over an offer. `external_allow_list` restricts which offered tools
    are allowed, and `allow_external = false` denies all of them.
    """
    what, tool = "tool.external_filter", remove_aliases(names)
    if not external:
        return None
    if rule.allow_external is False or (rule.allow_external is None and offer is None):
        hint = set_command("tools.filter.allow_external", True)
        return Decision(False, Reason.EXTERNAL_TOOL, "external tools are denied", hint, what, tool)
    if rule.allow_external is None and offer is not None and not offer.agreed:
        reason, hint = "the tool is not offered to agents", f"offer it: {offer.command} --offer"
        return Decision(False, Reason.EXTERNAL_TOOL, reason, hint, what, tool)
    if rule.external_allow_list and not fits(names, rule.external_allow_list):
        hint = append_command("tools.filter.external_allow_list", tool)
        return Decision(False, Reason.EXTERNAL_TOOL, "the tool is not in external_allow_list", hint, what, tool)
    allowing = "tools.filter.allow_external" if rule.allow_external else "a user agreed to offer the tool to agents"
    return Decision(True, Reason.ALLOWED, allowing, None, what, tool)


def decide_preset(preset: Preset, names: Names, traits: Traits) -> Decision:
    """Decide whether a preset allows a tool.

    The preset must list the tool, and allow the network and writing files if the tool needs them.
    """
    tool = remove_aliases(names)
    if not fits(names, preset.tools):
        hint = append_command("presets.NAME.tools", tool, preset.name)
        rule = f"the preset {preset.name} does not list the tool"
        return Decision(False, Reason.NOT_IN_PRESET, rule, hint, "tool.allow", tool)
    if not preset.allow_network and traits.network_outbound:
        hint = set_command("presets.NAME.allow_network", True, preset.name)
        rule = f"the preset {preset.name} does not allow network access, which the tool requires"
        return Decision(False, Reason.NETWORK_NOT_ALLOWED, rule, hint, "tool.network", tool)
    if not preset.allow_write_paths and Effect.WRITE_FILESYSTEM in traits.effects and not traits.enforced:
        hint = append_command("presets.NAME.allow_write_paths", "FOLDER", preset.name)
        rule = f"the preset {preset.name} allows no tool to write files, and no sandbox can stop this tool from writing"
        return Decision(False, Reason.NOT_IN_PRESET, rule, hint, "tool.write_paths", tool)
    return Decision(True, Reason.ALLOWED, f"presets.{preset.name}", None, "tool.allow", tool)


def decide_exfiltration(guard: ExfiltrationGuard, names: Names, traits: Traits) -> Decision | None:
    """Decide whether the guard against exfiltration allows a tool. The result is None if the guard does not apply."""
    what, tool = "tool.exfiltration_guard", remove_aliases(names)
    if not guard.enabled or not traits.network_outbound:
        return None
    if fits(names, guard.allow_tools):
        return Decision(True, Reason.ALLOWED, "tools.exfiltration_guard.allow_tools", None, what, tool)
    hint = append_command("tools.exfiltration_guard.allow_tools", tool)
    rule = "the tool can send data over the network"
    return Decision(False, Reason.NETWORK_NOT_ALLOWED, rule, hint, what, tool)


def decide_permission(permission: Permission | None, tool: str, rule: str = "", *, author: str = "") -> Decision | None:
    """Decide whether the operator's permission and the permission set by the tool's author allow a tool.

    A tool is denied if the operator's rule denies the tool. It is also denied if the author denies it and the
    operator's rule does not allow it. The result is None if neither denies the tool and the operator has no rule.

    SECURITY: an author can only restrict a tool; the value `allow` of `author` has no effect.
    """
    what = "tool.permission"
    if permission is Permission.DENY:
        hint = set_command("tools.rules.NAME.permission", "ask", rule or tool)
        return Decision(False, Reason.DENIED_BY_RULE, "a rule of the policy denies the tool", hint, what, tool)
    if author == Permission.DENY and permission is not Permission.ALLOW:
        hint = f"to allow the tool: {set_command('tools.rules.NAME.permission', 'allow', tool)}"
        reason = "the tool's package denies the tool, and no rule of the policy allows it"
        return Decision(False, Reason.DENIED_BY_RULE, reason, hint, what, tool)
    if permission is None:
        return None
    return Decision(True, Reason.ALLOWED, f"tools.rules: {permission}", None, what, tool)


def json_digest(value: object) -> str:
    """Return the BLAKE3 digest of a value's JSON text, in hexadecimal."""
    return blake3(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()
