"""The closed set of effects: kinds of things that a tool does to the world. Data alone; nothing here decides."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """One kind of effect. A tool declares those it has; one that declares none is taken to have all.

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
    """The agent's own memory of its user: nothing is lost by a write, since every version is kept."""
    READ_DESKTOP = "read-desktop"
    """The text that a person copied: a password as likely as anything else."""
    WRITE_DESKTOP = "write-desktop"
    NOTIFY = "notify"
    """A message that a person sees: nothing is changed or lost."""
    NETWORK = "network"
    EXTERNAL_WRITE = "external-write"
    USE_SECRET = "use-secret"  # noqa: S105 - an effect's name
    EXECUTE_CODE = "execute-code"
    SPAWN_PROCESS = "spawn-process"
    INVOKE_TOOL = "invoke-tool"
    MODIFY_TOOLS = "modify-tools"
    FINANCIAL = "financial"


_WORDS = {
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
    """Return effects in words for people, in their order."""
    if effects == EVERY_EFFECT:
        return "do anything"
    return ", ".join(_WORDS[effect] for effect in Effect if effect in effects) or "do nothing outside of itself"


EVERY_EFFECT = frozenset(Effect)
READING = frozenset({Effect.READ_FILESYSTEM, Effect.READ_MEMORY, Effect.NETWORK, Effect.USE_SECRET, Effect.INVOKE_TOOL})
"""Effects that change nothing by themselves. A tool with another one writes."""
REVERSIBLE = READING | {Effect.WRITE_MEMORY, Effect.NOTIFY}
"""Effects that nobody has to confirm: nothing is changed, or the agent's own alone, and that can be taken back."""
MEMORY = frozenset({Effect.READ_MEMORY, Effect.WRITE_MEMORY})
NETWORKING = frozenset({Effect.NETWORK, Effect.EXTERNAL_WRITE})
"""Effects that reach somebody outside of this machine."""
PRIVILEGED = frozenset(
    {Effect.READ_DESKTOP, Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS, Effect.MODIFY_TOOLS, Effect.FINANCIAL}
)
"""Effects that a person is asked about each time."""
