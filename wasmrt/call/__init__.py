"""One call from params to scanned result, decided on the host's side of the border."""

from wasmrt.call._admission import Admission
from wasmrt.call._batch import Batch, BatchResult, OpenedCall
from wasmrt.call._call import CallPipeline, CallRequest, run_call
from wasmrt.call._invoke import Invoker
from wasmrt.call._params import read_params, write_params
from wasmrt.call._services import CallServices
from wasmrt.call._state import Backends, Call, Files, ToolInvoker
from wasmrt.call._target import CallTarget

__all__ = [
    "Admission",
    "Backends",
    "Batch",
    "BatchResult",
    "Call",
    "CallPipeline",
    "CallRequest",
    "CallServices",
    "CallTarget",
    "Files",
    "Invoker",
    "OpenedCall",
    "ToolInvoker",
    "read_params",
    "run_call",
    "write_params",
]
