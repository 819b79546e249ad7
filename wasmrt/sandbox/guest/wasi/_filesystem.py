"""Implement `wasi:filesystem@0.2`: the granted workspace, at `/` or at the folders of the program.

If no workspace is granted, the guest has no preopened folder, so it cannot open any path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blake3 import blake3

from wasmrt.core.limits import MAX_STREAM_CHUNK_BYTES
from wasmrt.sandbox.component import Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.wasi import _file_changes
from wasmrt.sandbox.guest.wasi._cli import Program
from wasmrt.sandbox.guest.wasi._file_writing import close_written
from wasmrt.sandbox.guest.wasi._files import (
    File,
    Folder,
    Listing,
    Node,
    list_folder,
    open_path,
    open_to_write,
    refuse_change,
    refuse_write,
)
from wasmrt.sandbox.guest.wasi._io import BytesStream, Handles, IoError, drop_handle

_NEVER = ("set-times", "set-times-at", "link-at", "symlink-at")


def _error_code(ctx: GuestCall, rep: int) -> str | None:
    return ctx.part(Handles).get(rep, IoError).file_code


def _get_directories(ctx: GuestCall) -> list[tuple[int, str]]:
    if not ctx.services.has_workspace:
        return []
    handles, program = ctx.part(Handles), ctx.part(Program)
    return [(handles.add(Folder(path, read_only)), name) for name, path, read_only in program.folders]


def _get_node(ctx: GuestCall, rep: int) -> Node:
    return ctx.part(Handles).get(rep, Node)


def _find(ctx: GuestCall, rep: int, path: str) -> Node | Err:
    base = _get_node(ctx, rep)
    return open_path(ctx, base, path) if isinstance(base, Folder) else Err("not-directory")


def _open_at(
    ctx: GuestCall, rep: int, _follow: frozenset[str], path: str, how: frozenset[str], flags: frozenset[str]
) -> Ok | Err:
    base = _get_node(ctx, rep)
    if not isinstance(base, Folder):
        return Err("not-directory")
    if "directory" not in how and (how or "write" in flags):
        found = open_to_write(ctx, base, path, how)
    elif how & {"create", "exclusive", "truncate"}:
        return Err("invalid")
    else:
        found = open_path(ctx, base, path)
        writable = ctx.services.max_write_bytes and not base.read_only
        if flags & {"write", "mutate-directory"} and not writable and not isinstance(found, Err):
            return refuse_write(ctx, found.path)
    if isinstance(found, Err):
        return found
    if "directory" in how and isinstance(found, File):
        return Err("not-directory")
    return Ok(ctx.part(Handles).add(found))


def _read_via_stream(ctx: GuestCall, rep: int, offset: int) -> Ok | Err:
    file = _get_node(ctx, rep)
    if not isinstance(file, File):
        return Err("is-directory")
    return Ok(ctx.part(Handles).add(BytesStream(file.content, offset)))


def _read(ctx: GuestCall, rep: int, length: int, offset: int) -> Ok | Err:
    file = _get_node(ctx, rep)
    if not isinstance(file, File):
        return Err("is-directory")
    chunk = bytes(file.content[offset : offset + min(length, MAX_STREAM_CHUNK_BYTES)])
    return Ok((chunk, offset + len(chunk) >= len(file.content)))


def _get_kind(thing: Node) -> str:
    return "directory" if isinstance(thing, Folder) else "regular-file"


def _describe_status(thing: Node) -> Ok:
    return Ok(
        {
            "type": _get_kind(thing),
            "link-count": 1,
            "size": len(thing.content) if isinstance(thing, File) else 0,
            "data-access-timestamp": None,
            "data-modification-timestamp": None,
            "status-change-timestamp": None,
        }
    )


def _hash(thing: Node) -> Ok:
    digest = blake3(thing.path.encode("utf-8", "replace")).digest(length=16)
    return Ok({"lower": int.from_bytes(digest[:8], "little"), "upper": int.from_bytes(digest[8:], "little")})


def _make_path_method(inspect: Callable[[Node], Ok]) -> Callable[..., Ok | Err]:
    def find_and_inspect(ctx: GuestCall, rep: int, _follow: frozenset[str], path: str) -> Ok | Err:
        found = _find(ctx, rep, path)
        return found if isinstance(found, Err) else inspect(found)

    return find_and_inspect


def _read_directory(ctx: GuestCall, rep: int) -> Ok | Err:
    folder = _get_node(ctx, rep)
    if not isinstance(folder, Folder):
        return Err("not-directory")
    listing = list_folder(ctx, folder)
    return listing if isinstance(listing, Err) else Ok(ctx.part(Handles).add(listing))


def _read_entry(ctx: GuestCall, rep: int) -> Ok:
    return Ok(next(ctx.part(Handles).get(rep, Listing).entries, None))


def _is_same_object(ctx: GuestCall, rep: int, other: int) -> bool:
    return _get_node(ctx, rep).path == _get_node(ctx, other).path


def _make_refusing_handler(method: str) -> Callable[..., Err]:
    def record_refusal(ctx: GuestCall, rep: int, *_: Any) -> Err:
        return refuse_change(ctx, f"{method} in {_get_node(ctx, rep).path or '/'}")

    return record_refusal


def _get_flags(ctx: GuestCall, rep: int) -> Ok:
    node = _get_node(ctx, rep)
    if isinstance(node, File):
        return Ok(frozenset(("read", "write") if node.written is not None else ("read",)))
    writable = ctx.services.max_write_bytes and isinstance(node, Folder) and not node.read_only
    return Ok(frozenset(("read", "mutate-directory") if writable else ("read",)))


def _drop_descriptor(ctx: GuestCall, rep: int) -> None:
    node = _get_node(ctx, rep)
    drop_handle(ctx, rep)
    if isinstance(node, File) and node.written is not None:
        close_written(ctx, node.written)


def _refuse_link(ctx: GuestCall, rep: int, _path: str) -> Err:
    _get_node(ctx, rep)
    return Err("invalid")


def _ignore(ctx: GuestCall, rep: int, *_: Any) -> Ok:
    _get_node(ctx, rep)
    return Ok()


_METHODS: dict[str, Callable[..., Any]] = {
    "open-at": _open_at,
    "read-via-stream": _read_via_stream,
    "read": _read,
    "get-flags": _get_flags,
    "get-type": lambda ctx, rep: Ok(_get_kind(_get_node(ctx, rep))),
    "stat": lambda ctx, rep: _describe_status(_get_node(ctx, rep)),
    "stat-at": _make_path_method(_describe_status),
    "metadata-hash": lambda ctx, rep: _hash(_get_node(ctx, rep)),
    "metadata-hash-at": _make_path_method(_hash),
    "is-same-object": _is_same_object,
    "read-directory": _read_directory,
    "readlink-at": _refuse_link,
    "advise": _ignore,
    **_file_changes.METHODS,
    **{method: _make_refusing_handler(method) for method in _NEVER},
}

INTERFACES = (
    HostInterface(
        "wasi:filesystem/types@0.2.0",
        {
            "filesystem-error-code": _error_code,
            **{f"[method]descriptor.{name}": function for name, function in _METHODS.items()},
            "[method]directory-entry-stream.read-directory-entry": _read_entry,
        },
        {"descriptor": _drop_descriptor, "directory-entry-stream": drop_handle},
    ),
    HostInterface("wasi:filesystem/preopens@0.2.0", {"get-directories": _get_directories}),
)
