"""The effects that a tool can have."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """A kind of effect that a call can have. A tool that does not declare its effects is treated as having all effects.

    Examples:
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
    """Changes to the agent's memory about the user. No write loses data, because old versions are stored."""
    READ_DESKTOP = "read-desktop"
    """Access to the clipboard, the windows or the screen, which can show a password."""
    WRITE_DESKTOP = "write-desktop"
    """Changes to the clipboard."""
    CONTROL_DESKTOP = "control-desktop"
    """Use of the mouse or the keyboard, which can do everything that the user can do."""
    NOTIFY = "notify"
    """Messages to the user, which change no data."""
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
    Effect.READ_DESKTOP: "read the clipboard or the screen",
    Effect.WRITE_DESKTOP: "change the clipboard",
    Effect.CONTROL_DESKTOP: "use the mouse and the keyboard",
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
    """Describe effects in a phrase for users, in the order of `Effect`: `read files, use the network`."""
    if effects == EVERY_EFFECT:
        return "do anything"
    return ", ".join(_PHRASES[effect] for effect in Effect if effect in effects) or "do nothing outside of itself"


EVERY_EFFECT = frozenset(Effect)
READING = frozenset({Effect.READ_FILESYSTEM, Effect.READ_MEMORY, Effect.NETWORK, Effect.USE_SECRET, Effect.INVOKE_TOOL})
"""Effects that change nothing. A tool with any other effect counts as writing."""
REVERSIBLE = READING | {Effect.WRITE_MEMORY, Effect.NOTIFY}
"""Effects that need no confirmation, because they change nothing, or only data that the agent can restore."""
MEMORY = frozenset({Effect.READ_MEMORY, Effect.WRITE_MEMORY})
NETWORKING = frozenset({Effect.NETWORK, Effect.EXTERNAL_WRITE})
"""Effects that send data to other machines."""
PRIVILEGED = frozenset(
    {
        *(Effect.READ_DESKTOP, Effect.CONTROL_DESKTOP, Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS),
        *(Effect.MODIFY_TOOLS, Effect.FINANCIAL),
    }
)
"""Effects that require approval of every call."""
