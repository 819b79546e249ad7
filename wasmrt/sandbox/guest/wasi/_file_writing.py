"""Files that a guest writes. Their content is buffered and sent to the host when they are closed, synced or renamed.

A file therefore has either its old content or the complete new content. If the guest traps, files that it had not
closed are unchanged. All descriptors of a file share its buffer. When the guest opens a
file for writing, the host decides whether it may be written, so the guest gets a denial as the error of opening.
"""

from __future__ import annotations

from wasmrt.core.errors import BudgetExceededError, ToolError
from wasmrt.core.limits import MAX_WRITE_BYTES
from wasmrt.core.model import Reason
from wasmrt.sandbox.component import Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import Refuse, WorkspaceWrite
from wasmrt.sandbox.guest.wasi._io import IoError, OutputStream, make_stream_error

_CODES: dict[str, str] = {
    Reason.NOT_FOUND: "no-entry",
    Reason.INVALID_PATH: "not-permitted",
    Reason.NOT_GRANTED: "read-only",
    Reason.PROTECTED_FILE: "not-permitted",
    Reason.REMOVE_NOT_ALLOWED: "not-permitted",
    Reason.FILE_TOO_LARGE: "file-too-large",
    Reason.WRITE_BUDGET: "quota",
    Reason.ALREADY_EXISTS: "exist",
    Reason.NOT_EMPTY: "not-empty",
    Reason.NO_SPACE: "insufficient-space",
    Reason.NOT_A_FILE: "is-directory",
}


class Written:
    """A file that is open for writing."""

    __slots__ = ("content", "dirty", "gone", "handles", "path")

    def __init__(self, path: str, content: bytes, *, dirty: bool) -> None:
        self.path = path
        self.content = bytearray(content)
        self.dirty = dirty
        """True if the buffer has changes that were not sent to the host."""
        self.gone = False
        """True after the file was removed or replaced by a different one; its content is then never stored."""
        self.handles = 0


class WrittenFiles:
    """The files of one call that are open for writing, by path."""

    def __init__(self) -> None:
        self.open: dict[str, Written] = {}
        self.used = False


class FileOutput(OutputStream):
    """An output stream that writes to a file from an offset on, or always at its end."""

    def __init__(self, file: Written, offset: int | None) -> None:
        self._file = file
        self._offset = offset

    def write(self, ctx: GuestCall, data: bytes) -> Ok | Err:
        offset = len(self._file.content) if self._offset is None else self._offset
        code = write_at(ctx, self._file, data, offset)
        if code is not None:
            return make_stream_error(ctx, IoError(f"cannot write to the file: {code}", file_code=code))
        if self._offset is not None:
            self._offset += len(data)
        return Ok()


def open_written(ctx: GuestCall, path: str, how: frozenset[str], existing: Written | None, read: bytes) -> Written:
    """Open a file for writing. Return `existing` if it is already open, else a file with the content `read`."""
    file = existing
    if file is None:
        files = ctx.part(WrittenFiles)
        if not files.used:
            files.used = True
            ctx.at_end(lambda: finish_files(ctx))
        file = files.open[path] = Written(path, read, dirty="truncate" in how)
        check_size(ctx)
    elif "truncate" in how:
        del file.content[:]
        file.dirty = True
    file.handles += 1
    return file


def write_at(ctx: GuestCall, file: Written, data: bytes, offset: int) -> str | None:
    """Write `data` at an offset, after filling a gap with zeros. Return an error code, or None."""
    code = set_size(ctx, file, max(len(file.content), offset + len(data)))
    if code is None:
        file.content[offset : offset + len(data)] = data
    return code


def set_size(ctx: GuestCall, file: Written, size: int) -> str | None:
    """Truncate a file, or extend it with zeros. Return an error code, or None."""
    if file.gone:
        return "no-entry"
    most = ctx.services.max_write_bytes
    if size > most:
        # Recorded here, because the content is never sent to the host, which checks the size of sent content itself.
        subject = file.path.encode("unicode_escape").decode("ascii")
        ctx.services.handle(Refuse(Reason.FILE_TOO_LARGE, subject, most))
        return "file-too-large"
    if size < len(file.content):
        del file.content[size:]
    else:
        file.content += bytes(size - len(file.content))
        check_size(ctx)
    file.dirty = True
    return None


def check_size(ctx: GuestCall) -> None:
    """Check the total size of all open files.

    Raises:
        BudgetExceededError: the files are too large.
    """
    used = sum(len(file.content) for file in ctx.part(WrittenFiles).open.values())
    if used > MAX_WRITE_BYTES:
        raise BudgetExceededError(
            f"the guest has more than {MAX_WRITE_BYTES:,} bytes of files open for writing",
            limit=MAX_WRITE_BYTES, used=used, setting="limits.MAX_WRITE_BYTES",
            hint="have the tool close each file before it opens the next",
        )  # fmt: skip


def store(ctx: GuestCall, file: Written) -> Err | None:
    """Send a file to the host if it has changes. Return an error code if the host refuses."""
    try:
        _send(ctx, file)
    except HostFailure as failure:
        return Err(write_code(failure))
    return None


def close_written(ctx: GuestCall, file: Written) -> None:
    """Close a descriptor of a file and store the file. The last descriptor closes the file.

    Raises:
        ToolError: the file cannot be stored. Dropping a descriptor has no result, so the guest could not notice it.
    """
    file.handles -= 1
    if not file.handles and ctx.part(WrittenFiles).open.get(file.path) is file:
        del ctx.part(WrittenFiles).open[file.path]
    _store_or_raise(ctx, file)


def finish_files(ctx: GuestCall) -> None:
    """Store the files that a guest had not closed when it ended successfully.

    Raises:
        ToolError: a file cannot be stored.
    """
    for file in list(ctx.part(WrittenFiles).open.values()):
        _store_or_raise(ctx, file)


def forget(ctx: GuestCall, path: str) -> None:
    """Discard the buffer of a file that was removed or replaced."""
    file = ctx.part(WrittenFiles).open.pop(path, None)
    if file is not None:
        file.gone = True


def follow_rename(ctx: GuestCall, path: str, to: str) -> None:
    """Update the paths of open files after a file or a folder was renamed."""
    files = ctx.part(WrittenFiles).open
    for known in [known for known in files if known == path or known.startswith(f"{path}/")]:
        file = files.pop(known)
        file.path = to + known[len(path) :]
        files[file.path] = file


def write_code(failure: HostFailure) -> str:
    """Return the error code of wasi:filesystem for a failure of the host."""
    return _CODES.get(failure.code, "access")


def _send(ctx: GuestCall, file: Written) -> None:
    if file.dirty and not file.gone:
        file.dirty = False  # also if the host refuses: the request is not repeated
        ctx.services.handle(WorkspaceWrite(file.path, bytes(file.content)))


def _store_or_raise(ctx: GuestCall, file: Written) -> None:
    try:
        _send(ctx, file)
    except HostFailure as failure:
        raise ToolError(f"cannot store a file that the tool wrote: {failure.message}", code="not-written") from failure
