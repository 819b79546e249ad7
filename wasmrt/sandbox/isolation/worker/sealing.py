"""The confinement of a runtime's own processes, prepared before they read hostile bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wasmrt.core.limits import MIB, ResourceLimits
from wasmrt.sandbox.isolation.confine import COMPILE_WORKER, CORE, RUN_WORKER, TEMPLATE, Prepared, prepare
from wasmrt.sandbox.isolation.confine._process import open_own_status, own_status

WORKER_ROOM_BYTES = 384 * MIB
"""Memory for the engine's and the interpreter's work on values, in addition to the guest's memory."""
EVERY_LAYER = (*CORE, "capabilities", "descriptors", "landlock", "limits")
# A template leads a process group with its workers, so that all can be ended at once.
_RUN_WORKER = replace(RUN_WORKER, session=False)
_COMPILE_WORKER = replace(COMPILE_WORKER, session=False)


def _required(required: bool) -> tuple[str, ...]:
    """Return the required layers: all of them, or none if weaker machines are accepted."""
    return EVERY_LAYER if required else ()


class TemplateSeal:
    """The confinement of a template, entered at once, and that of the workers it forks.

    `keep` are descriptors that the template needs.

    Raises:
        ConfineError: a required layer is missing.
    """

    def __init__(self, limits: ResourceLimits, *, keep: tuple[int, ...], required: bool) -> None:
        room = limits.memory_bytes + WORKER_ROOM_BYTES
        self._worker: Prepared = prepare(_RUN_WORKER, data_bytes=room, required=_required(required))
        self._status = open_own_status()  # a sealed process cannot open the file
        held = (*keep, self._status, *self._worker.descriptors)
        prepare(TEMPLATE, keep=held, required=_required(required)).apply()

    def measure(self, *keep: int) -> None:
        """Measure the memory that workers start with; `keep` are descriptors they need."""
        self._in_use = own_status(self._status).data_bytes
        self._kept = keep

    def seal_worker(self, before: Callable[[], None]) -> None:
        """Seal a worker that was just forked; `before` is called while it can still start threads."""
        self._worker.apply(before, data_in_use=self._in_use, keep=self._kept)


def seal_compiler(*, required: bool) -> None:
    """Seal a compile worker.

    Raises:
        ConfineError: a required layer is missing.
    """
    prepare(_COMPILE_WORKER, required=_required(required)).apply()
