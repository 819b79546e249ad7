"""Receipts of calls: a chain that shows what was changed, and the recordings that calls are replayed from."""

from wasmrt.audit._chain import Keys, keys_of, read_keys
from wasmrt.audit._receipt import EMPTY_RECEIPT, OK, Approval, AuditSink, Receipt
from wasmrt.audit._writer import ReceiptWriter

__all__ = [
    "EMPTY_RECEIPT",
    "OK",
    "Approval",
    "AuditSink",
    "Keys",
    "Receipt",
    "ReceiptWriter",
    "keys_of",
    "read_keys",
]
