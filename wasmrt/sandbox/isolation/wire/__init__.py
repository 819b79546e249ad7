"""Frames between the host and its workers, and their contents, read as hostile input."""

from wasmrt.sandbox.isolation.wire._frames import (
    DESCRIPTION_BOUNDS,
    FRAME_BYTES,
    MAX_CONTROL_BYTES,
    MAX_DESCRIPTION_HEAD,
    NO_EXCHANGE,
    Channel,
    ClosedError,
    Frame,
    Kind,
    pack_frame,
    receive_with_descriptors,
    send_with_descriptors,
)
from wasmrt.sandbox.isolation.wire._head import MAX_TEXT, Head, ProtocolError

__all__ = [
    "DESCRIPTION_BOUNDS",
    "FRAME_BYTES",
    "MAX_CONTROL_BYTES",
    "MAX_DESCRIPTION_HEAD",
    "MAX_TEXT",
    "NO_EXCHANGE",
    "Channel",
    "ClosedError",
    "Frame",
    "Head",
    "Kind",
    "ProtocolError",
    "pack_frame",
    "receive_with_descriptors",
    "send_with_descriptors",
]
