"""The host's side of one call, from its params to its scanned result."""

from wasmrt.runtime.call._admission import Admission, QueuedCall, open_admission
from wasmrt.runtime.call._answer import read_params, write_params
from wasmrt.runtime.call._batch import Batch, BatchResult
from wasmrt.runtime.call._call import CallPipeline, CallRequest, run_call
from wasmrt.runtime.call._runner import CallRunner
from wasmrt.runtime.call._services import CallServices
from wasmrt.runtime.call._state import Backends, Call, Files, ToolRunner
from wasmrt.runtime.call._target import CallTarget
from wasmrt.runtime.call._tasks import CallTasks, LoopCall, ThreadCall
from wasmrt.runtime.call._threads import CallThreads

__all__ = [
    "Admission",
    "Backends",
    "Batch",
    "BatchResult",
    "Call",
    "CallPipeline",
    "CallRequest",
    "CallRunner",
    "CallServices",
    "CallTarget",
    "CallTasks",
    "CallThreads",
    "Files",
    "LoopCall",
    "QueuedCall",
    "ThreadCall",
    "ToolRunner",
    "open_admission",
    "read_params",
    "run_call",
    "write_params",
]
