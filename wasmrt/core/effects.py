"""The closed set of effects that a tool can have."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """One kind of effect. A tool declares its effects; a tool that declares none is treated as having all.

    Example:
        >>> from wasmrt import Effect, tool
        >>> @tool(effects=[Effect.NETWORK])
        ... def fetch(url: str) -> str:
        ...     "Fetch a page."
        ...     return ""
        >>> fetch.traits.effects == {Effect.NETWORK}
        True
    """

    READ_FILESYSTEM = "read-filesystem"
    WRITE_FILESYSTEM = "write-filesystem"
    DELETE_FILESYSTEM = "delete-filesystem"
    READ_MEMORY = "read-memory"
    WRITE_MEMORY = "write-memory"
    """The agent's memory of its user. A write loses nothing, since old versions are kept."""
    READ_DESKTOP = "read-desktop"
    """Text that the user copied, which may be a password."""
    WRITE_DESKTOP = "write-desktop"
    NOTIFY = "notify"
    """A message shown to the user. It changes nothing."""
    NETWORK = "network"
    EXTERNAL_WRITE = "external-write"
    USE_SECRET = "use-secret"  # noqa: S105 - an effect's name
    EXECUTE_CODE = "execute-code"
    SPAWN_PROCESS = "spawn-process"
    INVOKE_TOOL = "invoke-tool"
    MODIFY_TOOLS = "modify-tools"
    FINANCIAL = "financial"


_PHRASES = {
    Effect.READ_FILESYSTEM: "read files",
    Effect.WRITE_FILESYSTEM: "write files",
    Effect.DELETE_FILESYSTEM: "delete files",
    Effect.READ_MEMORY: "read its memory",
    Effect.WRITE_MEMORY: "write its memory",
    Effect.READ_DESKTOP: "read the clipboard",
    Effect.WRITE_DESKTOP: "change the clipboard",
    Effect.NOTIFY: "show notifications",
    Effect.NETWORK: "use the network",
    Effect.EXTERNAL_WRITE: "change something outside",
    Effect.USE_SECRET: "use a credential",
    Effect.EXECUTE_CODE: "execute code",
    Effect.SPAWN_PROCESS: "start processes",
    Effect.INVOKE_TOOL: "call other tools",
    Effect.MODIFY_TOOLS: "change tools",
    Effect.FINANCIAL: "spend money",
}


def in_words(effects: frozenset[Effect]) -> str:
    """Describe effects for users, in the order of `Effect`."""
    if effects == EVERY_EFFECT:
        return "do anything"
    return ", ".join(_PHRASES[effect] for effect in Effect if effect in effects) or "do nothing outside of itself"


EVERY_EFFECT = frozenset(Effect)
READING = frozenset({Effect.READ_FILESYSTEM, Effect.READ_MEMORY, Effect.NETWORK, Effect.USE_SECRET, Effect.INVOKE_TOOL})
"""Effects that change nothing. A tool with any other effect counts as writing."""
REVERSIBLE = READING | {Effect.WRITE_MEMORY, Effect.NOTIFY}
"""Effects that need no confirmation: they change nothing, or only the agent's own data, which can be restored."""
MEMORY = frozenset({Effect.READ_MEMORY, Effect.WRITE_MEMORY})
NETWORKING = frozenset({Effect.NETWORK, Effect.EXTERNAL_WRITE})
"""Effects that reach other machines."""
PRIVILEGED = frozenset(
    {Effect.READ_DESKTOP, Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS, Effect.MODIFY_TOOLS, Effect.FINANCIAL}
)
"""Effects that require approval of every call."""
