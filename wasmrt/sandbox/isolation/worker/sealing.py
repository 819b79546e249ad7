"""The seals of a runtime's own processes, made ready before hostile bytes come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wasmrt.core.limits import MIB, ResourceLimits
from wasmrt.sandbox.isolation.confine import COMPILE_WORKER, CORE, RUN_WORKER, TEMPLATE, Prepared, prepare
from wasmrt.sandbox.isolation.confine._process import open_own_status, own_status

WORKER_ROOM_BYTES = 384 * MIB
"""For the engine's and the interpreter's own work on values, beside the guest's memory."""
EVERY_LAYER = (*CORE, "capabilities", "descriptors", "landlock", "limits")
# A template leads a group of its own, and its workers stay in it: they can all be ended at once.
_RUN_WORKER = replace(RUN_WORKER, session=False)
_COMPILE_WORKER = replace(COMPILE_WORKER, session=False)


def _required(required: bool) -> tuple[str, ...]:
    """Return the layers without which nothing is sealed: every one, or none where what stands is taken."""
    return EVERY_LAYER if required else ()


class TemplateSeal:
    """The seal of a template, which is entered at once, and within it that of the workers it forks.

    `keep` are descriptors that the template needs.

    Raises:
        ConfineError: a layer is missing that is required.
    """

    def __init__(self, limits: ResourceLimits, *, keep: tuple[int, ...], required: bool) -> None:
        room = limits.memory_bytes + WORKER_ROOM_BYTES
        self._worker: Prepared = prepare(_RUN_WORKER, data_bytes=room, required=_required(required))
        self._status = open_own_status()  # a sealed process opens no such file
        held = (*keep, self._status, *self._worker.descriptors)
        prepare(TEMPLATE, keep=held, required=_required(required)).apply()

    def measure(self, *keep: int) -> None:
        """Take what the template holds now as what its workers begin with; `keep` are descriptors they need."""
        self._in_use = own_status(self._status).data_bytes
        self._kept = keep

    def seal_worker(self, before: Callable[[], None]) -> None:
        """Seal a worker that was just forked; `before` is called when it can still start threads."""
        self._worker.apply(before, data_in_use=self._in_use, keep=self._kept)


def seal_compiler(*, required: bool) -> None:
    """Seal a compile worker.

    Raises:
        ConfineError: a layer is missing that is required.
    """
    prepare(_COMPILE_WORKER, required=_required(required)).apply()
