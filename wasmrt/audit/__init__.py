"""Receipts of calls: a chain that shows what was changed, and the recordings that calls are replayed from."""

from wasmrt.audit._chain import Keys, keys_of, read_keys
from wasmrt.audit._receipt import EMPTY_RECEIPT, OK, Approval, AuditSink, Receipt
from wasmrt.audit._verify import Break, BreakKind, ChainHead, Verification, chain_head, verify
from wasmrt.audit._writer import ReceiptWriter

__all__ = [
    "EMPTY_RECEIPT",
    "OK",
    "Approval",
    "AuditSink",
    "Break",
    "BreakKind",
    "ChainHead",
    "Keys",
    "Receipt",
    "ReceiptWriter",
    "Verification",
    "chain_head",
    "keys_of",
    "read_keys",
    "verify",
]
