"""Receipts of calls: a chain that shows what was changed, and the recordings that calls are replayed from."""

from wasmrt.audit._chain import Keys, existing_keys, keys_of, read_keys
from wasmrt.audit._receipt import EMPTY_RECEIPT, OK, Approval, AuditSink, Receipt
from wasmrt.audit._recording import RecordedCall, Recorder, Recording, read_recording
from wasmrt.audit._replay import Replay, Replayed
from wasmrt.audit._tape import Tape
from wasmrt.audit._writer import ReceiptWriter

__all__ = [
    "EMPTY_RECEIPT",
    "OK",
    "Approval",
    "AuditSink",
    "Keys",
    "Receipt",
    "ReceiptWriter",
    "RecordedCall",
    "Recorder",
    "Recording",
    "Replay",
    "Replayed",
    "Tape",
    "existing_keys",
    "keys_of",
    "read_keys",
    "read_recording",
]
