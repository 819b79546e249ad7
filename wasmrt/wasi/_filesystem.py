"""`wasi:filesystem@0.2`: nothing is opened beforehand, so no path leads anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt.engine import HostInterface
from wasmrt.wasi._handles import Handles, drop_handle
from wasmrt.wasi._streams import IoError
from wasmrt.wasi._unreachable import unreachable

if TYPE_CHECKING:
    from wasmrt.context import CallContext

_METHODS = (
    "read-via-stream write-via-stream append-via-stream advise sync-data get-flags get-type set-size set-times "
    "read write read-directory sync create-directory-at stat stat-at set-times-at link-at open-at readlink-at "
    "remove-directory-at rename-at symlink-at unlink-file-at is-same-object metadata-hash metadata-hash-at"
)


def _error_code(ctx: CallContext, rep: int) -> str | None:
    return ctx.part(Handles).get(rep, IoError).code


def _directories(_ctx: CallContext) -> list[tuple[int, str]]:
    return []


INTERFACES = (
    HostInterface(
        "wasi:filesystem/types@0.2.0",
        {
            "filesystem-error-code": _error_code,
            **unreachable("descriptor", _METHODS),
            **unreachable("directory-entry-stream", "read-directory-entry"),
        },
        {"descriptor": drop_handle, "directory-entry-stream": drop_handle},
    ),
    HostInterface("wasi:filesystem/preopens@0.2.0", {"get-directories": _directories}),
)
