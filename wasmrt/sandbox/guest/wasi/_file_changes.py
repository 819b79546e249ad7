"""Implement the descriptor methods that change files. Changes that are not granted are denied and recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.sandbox.component import Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import Request, WorkspaceMakeDirectory, WorkspaceRemove, WorkspaceRename
from wasmrt.sandbox.guest.wasi._file_writing import (
    FileOutput,
    Written,
    WrittenFiles,
    follow_rename,
    forget,
    set_size,
    store,
    write_at,
    write_code,
)
from wasmrt.sandbox.guest.wasi._files import File, Folder, Node, join_path, refuse_write
from wasmrt.sandbox.guest.wasi._io import Handles


def _get_node(ctx: GuestCall, rep: int) -> Node:
    return ctx.part(Handles).get(rep, Node)


def _get_written_file(ctx: GuestCall, rep: int) -> Written | Err:
    """Return the file behind the descriptor `rep`, or an error code if the descriptor is not open for writing."""
    node = _get_node(ctx, rep)
    if isinstance(node, File):
        return Err("bad-descriptor") if node.written is None else node.written
    return Err("is-directory") if ctx.services.max_write_bytes else refuse_write(ctx, node.path)


def _resolve_path(ctx: GuestCall, rep: int, path: str) -> str | Err:
    """Return `path` in the folder behind the descriptor `rep`, or an error code if the path must not be changed."""
    base = _get_node(ctx, rep)
    if not isinstance(base, Folder):
        return Err("not-directory")
    whole = join_path(base.path, path)
    if not whole:
        return Err("not-permitted")
    return refuse_write(ctx, whole) if base.read_only or not ctx.services.max_write_bytes else whole


def _write(ctx: GuestCall, rep: int, data: bytes, offset: int) -> Ok | Err:
    file = _get_written_file(ctx, rep)
    if isinstance(file, Err):
        return file
    code = write_at(ctx, file, data, offset)
    return Ok(len(data)) if code is None else Err(code)


def _write_via_stream(ctx: GuestCall, rep: int, offset: int | None = None) -> Ok | Err:
    file = _get_written_file(ctx, rep)
    return file if isinstance(file, Err) else Ok(ctx.part(Handles).add(FileOutput(file, offset)))


def _set_size(ctx: GuestCall, rep: int, size: int) -> Ok | Err:
    file = _get_written_file(ctx, rep)
    if isinstance(file, Err):
        return file
    code = set_size(ctx, file, size)
    return Ok() if code is None else Err(code)


def _sync(ctx: GuestCall, rep: int) -> Ok | Err:
    node = _get_node(ctx, rep)
    refused = store(ctx, node.written) if isinstance(node, File) and node.written is not None else None
    return Ok() if refused is None else refused


def _make_directory(ctx: GuestCall, rep: int, path: str) -> Ok | Err:
    whole = _resolve_path(ctx, rep, path)
    return whole if isinstance(whole, Err) else _request_change(ctx, WorkspaceMakeDirectory(whole))


def _unlink(ctx: GuestCall, rep: int, path: str) -> Ok | Err:
    whole = _resolve_path(ctx, rep, path)
    if isinstance(whole, Err):
        return whole
    answer = _request_change(ctx, WorkspaceRemove(whole))
    if isinstance(answer, Ok):
        forget(ctx, whole)
    return answer


def _remove_directory(ctx: GuestCall, rep: int, path: str) -> Ok | Err:
    whole = _resolve_path(ctx, rep, path)
    if isinstance(whole, Err):
        return whole
    answer = _request_change(ctx, WorkspaceRemove(whole, directory=True))
    return Err("not-directory") if answer == Err("is-directory") else answer


def _rename(ctx: GuestCall, rep: int, path: str, target: int, to: str) -> Ok | Err:
    whole, new = _resolve_path(ctx, rep, path), _resolve_path(ctx, target, to)
    if isinstance(whole, Err):
        return whole
    if isinstance(new, Err):
        return new
    if whole == new:
        return _request_change(ctx, WorkspaceRename(whole, new))
    files = ctx.part(WrittenFiles).open
    for known in [file for name, file in files.items() if name == whole or name.startswith(f"{whole}/")]:
        if (refused := store(ctx, known)) is not None:
            return refused
    answer = _request_change(ctx, WorkspaceRename(whole, new))
    if isinstance(answer, Ok):
        forget(ctx, new)
        follow_rename(ctx, whole, new)
    return answer


def _request_change(ctx: GuestCall, request: Request[None]) -> Ok | Err:
    try:
        ctx.services.handle(request)
    except HostFailure as failure:
        return Err(write_code(failure))
    return Ok()


METHODS: dict[str, Callable[..., Any]] = {
    "write": _write,
    "write-via-stream": _write_via_stream,
    "append-via-stream": _write_via_stream,
    "set-size": _set_size,
    "sync": _sync,
    "sync-data": _sync,
    "create-directory-at": _make_directory,
    "unlink-file-at": _unlink,
    "remove-directory-at": _remove_directory,
    "rename-at": _rename,
}
