"""Keeps httpcore's debug log from telling what goes over our connections."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

_ours = threading.local()


class _DropOurs(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_ours, "depth", 0)


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Drop what httpcore logs in this thread meanwhile.

    SECURITY: at level DEBUG it logs every response header, and a server may echo a secret in one. Other users of
    httpcore in this process keep their logs.
    """
    _ours.depth = getattr(_ours, "depth", 0) + 1
    try:
        yield
    finally:
        _ours.depth -= 1


for _name in ("httpcore.connection", "httpcore.http11"):
    # Once, and on httpcore's own loggers: a filter on a parent does not see what its children log.
    logging.getLogger(_name).addFilter(_DropOurs())
