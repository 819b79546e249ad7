"""The texts of tool definitions. Their authors are untrusted, and models read them as they read results."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from wasmrt.agent.flows import UntrustedText, flow_texts
from wasmrt.agent.registry._registered import RegisteredTool
from wasmrt.agent.registry._tool import OWN_SOURCES


class DefinitionTexts:
    """Finds values in the definitions of tools that are not part of the program. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indexed: dict[int, tuple[RegisteredTool, UntrustedText]] = {}

    def find(self, entries: Iterable[RegisteredTool], value: object, *, called: RegisteredTool) -> str:
        """Return the name of a tool whose definition contains a destination, or an empty string.

        The called tool's own definition is not searched: its author receives the call in any case.
        """
        foreign = [entry for entry in entries if entry.source not in OWN_SOURCES and entry.name != called.name]
        with self._lock:
            return next((entry.name for entry in foreign if self._text_of(entry).contains(value)), "")

    def _text_of(self, entry: RegisteredTool) -> UntrustedText:
        known = self._indexed.get(id(entry))
        if known is None or known[0] is not entry:
            text = UntrustedText()
            text.add("\n".join((entry.tool.description, entry.document, *flow_texts(entry.tool.schema))))
            known = self._indexed[id(entry)] = (entry, text)
        return known[1]
