"""One call from params to scanned result, and what has to be ready before the first."""

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy
from wasmrt.call._admission import Admission
from wasmrt.call._apart import Apart
from wasmrt.call._audit import AuditRecord, AuditSink
from wasmrt.call._call import Asked, CallPath, Progress, call
from wasmrt.call._invoke import Invoker
from wasmrt.call._program import Program, fits_the_pool, make_program
from wasmrt.call._spares import Spares
from wasmrt.guest.worlds._spec import ToolSpec

if TYPE_CHECKING:
    from wasmrt.call._audit_file import AuditFile

__getattr__ = lazy(
    __name__, {"_audit_file": ("AuditFile",)}, globals()
)  # maps files, which a run without audit need not

__all__ = [
    "Admission",
    "Apart",
    "Asked",
    "AuditFile",
    "AuditRecord",
    "AuditSink",
    "CallPath",
    "Invoker",
    "Program",
    "Progress",
    "Spares",
    "ToolSpec",
    "call",
    "fits_the_pool",
    "make_program",
]
