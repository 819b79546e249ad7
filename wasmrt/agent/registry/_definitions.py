"""The texts of tool definitions. Their authors are untrusted, and models read them as they read results."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from wasmrt.agent.flows import UntrustedText, flow_texts
from wasmrt.agent.registry._registered import OWN_SOURCES, RegisteredTool
from wasmrt.core.limits import KIB

_MAX_BYTES = 256 * KIB
"""Maximum size of the stored former definitions of one name."""
_MAX_NAMES = 1024


class DefinitionTexts:
    """Finds values in the definitions of tools that are not part of the program. Thread-safe.

    SECURITY: a model may remember a definition after its tool was replaced or removed. Definitions that were returned
    for a model are therefore kept, by the name of the tool. If they exceed the limits, every value counts as found.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indexed: WeakKeyDictionary[RegisteredTool, UntrustedText] = WeakKeyDictionary()
        self._returned: WeakKeyDictionary[RegisteredTool, bool] = WeakKeyDictionary()
        self._former: dict[str, UntrustedText] = {}

    def record_returned(self, entry: RegisteredTool) -> None:
        """Record that the definition of a tool was returned for a model."""
        if entry.source in OWN_SOURCES or entry in self._returned:
            return
        with self._lock:
            self._returned[entry] = True
            name = entry.name if len(self._former) < _MAX_NAMES else ""
            self._former.setdefault(name, UntrustedText(_MAX_BYTES)).add(_join_texts(entry))

    def find(self, entries: Iterable[RegisteredTool], value: object, *, called: RegisteredTool) -> str:
        """Return the name of a tool whose definition contains `value`, a call's destination; else an empty string.

        The definition of the tool `called` is not searched, because the tool's author receives the call in any case.
        """
        foreign = [entry for entry in entries if entry.source not in OWN_SOURCES and entry.name != called.name]
        with self._lock:
            found = next((entry.name for entry in foreign if self._get_definition_text(entry).contains(value)), "")
            former = ((name, text) for name, text in self._former.items() if name != called.name)
            return found or next((name or "of many" for name, text in former if text.contains(value) or text.blind), "")

    def _get_definition_text(self, entry: RegisteredTool) -> UntrustedText:
        text = self._indexed.get(entry)
        if text is None:
            text = self._indexed[entry] = UntrustedText()
            text.add(_join_texts(entry))
        return text


def _join_texts(entry: RegisteredTool) -> str:
    tool = entry.tool
    return "\n".join((tool.description, entry.document, *flow_texts(tool.schema), *flow_texts(tool.output_schema)))
