"""Receipts of calls, in a tamper-evident chain, and recordings for replaying calls."""

from wasmrt.runtime.audit._chain import Keys, derive_keys, existing_keys, read_keys
from wasmrt.runtime.audit._files import Cut
from wasmrt.runtime.audit._receipt import EMPTY_RECEIPT, OK, Approval, AuditSink, Receipt
from wasmrt.runtime.audit._recording import RecordedCall, Recorder, Recording, Tape, read_recording
from wasmrt.runtime.audit._replay import Replay, ReplayResult
from wasmrt.runtime.audit._writer import ReceiptWriter

__all__ = [
    "EMPTY_RECEIPT",
    "OK",
    "Approval",
    "AuditSink",
    "Cut",
    "Keys",
    "Receipt",
    "ReceiptWriter",
    "RecordedCall",
    "Recorder",
    "Recording",
    "Replay",
    "ReplayResult",
    "Tape",
    "derive_keys",
    "existing_keys",
    "read_keys",
    "read_recording",
]
