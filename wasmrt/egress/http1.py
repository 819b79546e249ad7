"""Connections of h11, in which a header takes linear time.

SECURITY: h11's expression for a header field tries every division of a run of blanks if an invalid byte follows. For
64 KiB of blanks that takes half a minute, in one C call that holds the GIL.
"""

from __future__ import annotations

import re

import h11
from h11 import _abnf, _readers

_BLANKS = f":{_abnf.OWS}"
assert _BLANKS in _abnf.header_field
# The value never begins with a blank, so the expression need not try shorter runs of blanks before the value. h11 uses
# this expression for heads and trailers.
_readers.header_field_re = re.compile(_abnf.header_field.replace(_BLANKS, f"{_BLANKS}+", 1).encode("ascii"))


def new_connection(role: type[h11.CLIENT] | type[h11.SERVER], *, max_head_bytes: int) -> h11.Connection:
    """Return a new connection."""
    return h11.Connection(role, max_incomplete_event_size=max_head_bytes)
