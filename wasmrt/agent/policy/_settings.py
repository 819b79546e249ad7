"""Descriptions of the policy's settings in the operator's file. `_read` reads them."""

from __future__ import annotations

from wasmrt.agent.policy._flows import FLOW_PRESETS
from wasmrt.agent.policy._model import DEFAULT_APPROVAL_SECONDS, DEFAULT_OUTPUT_BYTES
from wasmrt.core.settings import Setting

_PRESETS = ", ".join(FLOW_PRESETS)
POLICY_SETTINGS = (
    Setting("tools.preset", "Name of the active preset.", "work"),
    Setting(
        "tools.max_output_bytes", "Longest answer for models.", 65_536, DEFAULT_OUTPUT_BYTES,
        "bytes",
    ),
    Setting("tools.plugin_dir", "Folder of plugins.", "plugins"),
    Setting("tools.unsafe_native_plugins", "Allow plugins that are native programs.", True, False),
    Setting(
        "tools.filter.allow_external",
        "Offer all external tools (installed tools, plugins, tools of MCP servers) or none. "
        "By default, installed tools and tools of MCP servers that a user agreed to.", True,
    ),
    Setting("tools.filter.external_allow_list", "The only external tools that may be offered.", ["weather"], []),
    Setting("tools.exfiltration_guard.enabled", "Deny tools that can send data.", True, False),
    Setting("tools.exfiltration_guard.allow_tools", "Tools that the guard allows.", ["weather"], []),
    Setting("tools.exfiltration_guard.blocked_tools", "Has no effect; for files of other programs.", ["curl"]),
    Setting("tools.rules.NAME.permission", "allow, ask or deny calls of tools that match NAME.", "ask"),
    Setting("tools.rules.NAME.safety_tier", "Strictest tier of the tools.", "privileged"),
    Setting("tools.rules.NAME.risk", "Highest risk of the tools: low, medium, high or critical.", "high"),
    Setting("tools.rules.NAME.confirmation", "When calls require approval.", "always"),
    Setting("tools.rules.NAME.subagent_access", "Access of sub-agents to the tools.", "denied"),
    Setting("tools.rules.NAME.network_outbound", "The tools can send data.", True),
    Setting("tools.rules.NAME.requests_per_minute", "Calls of one user in a minute.", 10),
    Setting("tools.rules.NAME.requests_per_hour", "Calls of one user in an hour.", 100),
    Setting("tools.rules.NAME.timeout_seconds", "Timeout of a call.", 20.0, unit="seconds"),
    Setting("tools.rules.NAME.results", "Labels of the results.", ["untrusted"]),
    Setting("tools.rules.NAME.destinations", "Parameters that decide where data goes.", ["to"]),
    Setting("tools.rules.NAME.ids", "Parameters that accept identifiers from the results.", ["id"]),
    Setting("tools.rules.NAME.vouched", "Members of the results that only the service writes.", ["address"]),
    Setting("tools.flows.preset", f"Preset of the flow rules: {_PRESETS}.", "careful"),
    Setting("tools.flows.known", "Destinations that the flow rules always allow.", ["ann@example.com"]),
    Setting("tools.flows.automation", "Deny instead of asking, for jobs without a user.", True),
    Setting("tools.flows.files_untrusted", "Treat the content of files as untrusted.", True),
    Setting("tools.flows.rules.NAME", "allow, ask or deny.", "ask"),
    Setting("tools.flows.rules.NAME.effects", "Effects to which your rule applies.", ["network"]),
    Setting("tools.flows.rules.NAME.labels", "Labels to which it applies.", ["private"]),
    Setting("tools.flows.rules.NAME.provenance", "Origins to which it applies.", ["untrusted"]),
    Setting("tools.flows.rules.NAME.carries", "Content to which it applies.", "private"),
    Setting("tools.flows.rules.NAME.action", "Its action: allow, ask or deny.", "ask"),
    Setting("presets.NAME.tools", "Tools of the preset; * matches any text.", ["read_*"], []),
    Setting("presets.NAME.allow_network", "Allow the network.", True, False),
    Setting("presets.NAME.allow_write_paths", "Folders that its tools may write.", ["out"], []),
    Setting("presets.NAME.read_only", "Only allow reading.", True, False),
    Setting("presets.NAME.flows", f"Preset of the flow rules: {_PRESETS}.", "careful"),
    Setting("approvals.approver", "auto, terminal, queue or deny.", "queue", "auto"),
    Setting(
        "approvals.timeout_seconds", "Time after which a request is denied.", 60.0, DEFAULT_APPROVAL_SECONDS, "seconds",
    ),
    Setting("approvals.access", "Denials of components become access requests: ask or deny.", "deny", "ask"),
    Setting("approvals.notify", "Show a desktop notification for each new request.", True, False),
)  # fmt: skip
