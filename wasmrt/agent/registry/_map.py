"""The map of flows of a view: what each of its tools can read, take in and send, from effects and grants alone."""

from __future__ import annotations

from collections.abc import Iterable

from wasmrt.agent.flows import FlowMap, Label, Reach
from wasmrt.agent.policy import OUTGOING
from wasmrt.agent.registry import _steps
from wasmrt.agent.registry._flow import OWN_SOURCES, result_labels
from wasmrt.agent.registry._state import CallState
from wasmrt.capabilities.model import ANY_HOST
from wasmrt.core.effects import NETWORKING, Effect, in_words
from wasmrt.runtime.prepared import PreparedTool

_SENDING = OUTGOING | NETWORKING
_MAX_HOSTS = 3


def flow_map(probes: Iterable[CallState]) -> FlowMap:
    """Return the map of the tools that probes stand for: calls without params that are not made."""
    return FlowMap(tuple(_reach(probe) for probe in probes))


def _reach(probe: CallState) -> Reach:
    entry, effects = probe.known, probe.effects
    foreign = entry.source not in OWN_SOURCES
    labels = result_labels(probe, frozenset())
    return Reach(
        tool=entry.name,
        private=_private(effects) if Label.PRIVATE in labels else "",
        untrusted=_untrusted(effects, foreign=foreign) if Label.UNTRUSTED in labels else "",
        sends=_sends(probe) if effects & _SENDING else "",
        asks=_asks(probe),
    )


def _private(effects: frozenset[Effect]) -> str:
    if Effect.READ_FILESYSTEM in effects:
        return "reads files"
    if Effect.READ_MEMORY in effects:
        return "reads its memory"
    return "reads what its credential opens" if Effect.USE_SECRET in effects else "can read what is private"


def _untrusted(effects: frozenset[Effect], *, foreign: bool) -> str:
    if effects & NETWORKING:
        return "from the network"
    if Effect.READ_FILESYSTEM in effects:
        return "from files"
    if Effect.READ_MEMORY in effects:
        return "from its memory"
    return "a stranger wrote the tool" if foreign else "whoever writes it"


def _sends(probe: CallState) -> str:
    hosts = _hosts(probe)
    doing = probe.effects & OUTGOING
    words = f"can {in_words(doing)}" if doing else "can send requests, whose paths carry data"
    return f"{words} at {hosts}" if hosts else words


def _hosts(probe: CallState) -> str:
    """Return the hosts that a component's grant allows; empty where no grant says."""
    http = probe.tool.capabilities.http if isinstance(probe.tool, PreparedTool) else None
    if http is None:
        return ""
    patterns = dict.fromkeys(entry.host_pattern for entry in http.allowlist)
    hosts = ["any public host" if pattern == ANY_HOST else pattern for pattern in patterns]
    more = f" and {len(hosts) - _MAX_HOSTS} more" if len(hosts) > _MAX_HOSTS else ""
    return ", ".join(hosts[:_MAX_HOSTS]) + more


def _asks(probe: CallState) -> bool:
    """Tell whether a person is asked about every call of a tool, whatever its params."""
    try:
        _steps.check_confirmation(probe)
    except Exception:  # a tool that decides by its params: nobody can say that it always asks
        return False
    return probe.needs is not None
