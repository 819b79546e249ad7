"""The traces of a registry: what each conversation has seen. A person's word comes in here, a model's does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from wasmrt.agent.flows import FlowTrace, Label, Written, read_labels
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_FLOW_TRACES
from wasmrt.runtime.audit import EMPTY_RECEIPT, Approval, Receipt

CLEARED = "flows.clear"
"""The name that stands for a tool in the receipt of labels that were cleared."""


class Trace:
    """One conversation or job of a user, as the program around the model sees it.

    Calls that are made with `trace=` of its name belong to it. Its labels only grow; `clear` is for a person.
    """

    def __init__(self, traces: Traces, user: str, name: str, flows: FlowTrace) -> None:
        self._traces = traces
        self._flows = flows
        self.user = user
        self.name = name

    @property
    def labels(self) -> frozenset[Label]:
        """The labels of everything that it has seen."""
        return self._flows.labels

    def user_said(self, text: str) -> None:
        """Take in what the person said. A destination that stands in it is not asked about.

        Text that the person pasted is not said by them: give it to `saw`.

        Raises:
            ConfigurationError: it is no text.
        """
        if not isinstance(text, str):
            raise ConfigurationError("what a person said is a text")
        self._flows.user_said(text)

    def saw(self, text: Any, labels: Iterable[Label | str] = (Label.UNTRUSTED,), *, source: str = "") -> None:
        """Take in what the model gets besides the results of tools: a file that was uploaded, a mail that was pasted.

        Raises:
            ConfigurationError: a label is none, or they contradict each other.
        """
        self._flows.saw(text, read_labels(labels), tool=source)

    def clear(self, *labels: Label | str, by: str) -> frozenset[Label]:
        """Forget what was seen under some labels, all where none is given, and write a receipt of it.

        Raises:
            ConfigurationError: a label is none, or nobody is named.
        """
        if not by:
            raise ConfigurationError("labels are cleared by a person", hint='clear(by="ann")')
        cleared = self._flows.clear(*sorted(read_labels(labels)) if labels else ())
        self._traces.told(self, cleared, by)
        return cleared

    def close(self) -> None:
        """End the trace, forget what it has seen, and end what tools were granted for it.

        Raises:
            ApprovalError: what was granted cannot be ended, since its store cannot be written.
        """
        self._traces.end(self.user, self.name)


class Traces:
    """The traces that are open, by their user and name. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], Trace] = {}
        self.written = Written()
        """Marks of what calls wrote after they had seen strangers' text, for whichever trace reads it again."""
        self.receipts: Callable[[Receipt], None] | None = None
        self.on_end: Callable[[str, str], None] | None = None
        """Gets user and name of a trace that has ended."""

    def find(self, user: str, name: str) -> FlowTrace | None:
        """Return what a trace has seen; None for one that is not open."""
        found = self._open.get((user, name))
        return None if found is None else found._flows

    def open(self, user: str, name: str, *, automation: bool = False) -> Trace:
        """Return the trace of a name, opened where it is not.

        Raises:
            ConfigurationError: too many are open. SECURITY: none is forgotten to make room, since its labels would be.
        """
        with self._lock:
            found = self._open.get((user, name))
            if found is None:
                if len(self._open) >= MAX_FLOW_TRACES:
                    raise ConfigurationError(
                        f"{MAX_FLOW_TRACES:,} traces are open", code="too-many-traces",
                        hint="close those that have ended: trace.close()",
                    )  # fmt: skip
                found = self._open[user, name] = Trace(self, user, name, FlowTrace(automation=automation))
            elif automation:
                found._flows.automation = True
            return found

    def end(self, user: str, name: str) -> None:
        """Forget a trace."""
        with self._lock:
            self._open.pop((user, name), None)
        if self.on_end is not None:
            self.on_end(user, name)

    def told(self, trace: Trace, cleared: frozenset[Label], by: str) -> None:
        """Write the receipt of labels that a person cleared."""
        if self.receipts is None:
            return
        now = time.time_ns() // 1_000_000
        self.receipts(
            EMPTY_RECEIPT._replace(
                started_ms=now, ended_ms=now, trace_id=trace.name, call_id=f"clear-{now}", tool=CLEARED, kind="flows",
                user=trace.user, chain=(CLEARED,), approval=Approval("person", by[:256], " ".join(sorted(cleared))),
            )
        )  # fmt: skip
