"""Decide whether a policy allows a tool. A denial contains the configuration change that would allow the tool."""

from __future__ import annotations

from wasmrt.agent.policy._model import ExfiltrationGuard, ExternalFilter, Permission, Preset
from wasmrt.agent.policy._names import Names, first_name, fits
from wasmrt.core.effects import Effect
from wasmrt.core.model import Decision, Reason
from wasmrt.core.setting_commands import append_command, set_command
from wasmrt.core.tool_defaults import Offer
from wasmrt.core.traits import Traits


def decide_filter(rule: ExternalFilter, names: Names, *, external: bool, offer: Offer | None = None) -> Decision | None:
    """Decide whether the filter for external tools allows a tool; None if the tool is not external.

    SECURITY: the operator's settings take precedence over an offer: a list restricts it, and `false` cancels it.
    """
    what, tool = "tool.external_filter", first_name(names)
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
    tool = first_name(names)
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
        rule = f"the preset {preset.name} allows writing to no folder, and no sandbox enforces that for this tool"
        return Decision(False, Reason.NOT_IN_PRESET, rule, hint, "tool.write_paths", tool)
    return Decision(True, Reason.ALLOWED, f"presets.{preset.name}", None, "tool.allow", tool)


def decide_exfiltration(guard: ExfiltrationGuard, names: Names, traits: Traits) -> Decision | None:
    """Decide whether the guard against exfiltration allows a tool; None if the guard does not apply to the tool."""
    what, tool = "tool.exfiltration_guard", first_name(names)
    if not guard.enabled or not traits.network_outbound:
        return None
    if fits(names, guard.allow_tools):
        return Decision(True, Reason.ALLOWED, "tools.exfiltration_guard.allow_tools", None, what, tool)
    hint = append_command("tools.exfiltration_guard.allow_tools", tool)
    rule = "the tool can send data over the network"
    return Decision(False, Reason.NETWORK_NOT_ALLOWED, rule, hint, what, tool)


def decide_permission(permission: Permission | None, tool: str, rule: str = "", *, author: str = "") -> Decision | None:
    """Decide by the permission of the operator's rule, and by the permission that the tool's author set.

    A tool is denied if the rule denies it, or if the author denies it and no rule allows it. The result is None if no
    permission applies.

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
