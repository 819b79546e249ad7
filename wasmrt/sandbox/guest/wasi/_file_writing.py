"""Files that a guest writes: kept here, and given to the host whole when they are closed, synced or moved.

So a file has its old content or all of the new one, whatever becomes of the guest; and one that trapped leaves what it
had not closed as it was. Descriptors of one file share its bytes. The host decides when a file is opened, so that a
guest learns of a refusal there.
"""

from __future__ import annotations

from wasmrt.core.errors import BudgetExceededError, ToolError
from wasmrt.core.limits import MAX_WRITE_BYTES
from wasmrt.core.model import Decision, Reason
from wasmrt.sandbox.component import Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.requests import HostFailure, Refuse, WorkspaceWrite
from wasmrt.sandbox.guest.wasi._streams import IoError, OutputStream, failed

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
    """A file that is open to be written."""

    __slots__ = ("content", "dirty", "gone", "handles", "path")

    def __init__(self, path: str, content: bytes, *, dirty: bool) -> None:
        self.path = path
        self.content = bytearray(content)
        self.dirty = dirty
        """True where the host does not have all of it."""
        self.gone = False
        """True once its name is another file's, or nobody's: then nothing of it is kept."""
        self.handles = 0


class WrittenFiles:
    """The files of one call that are open to be written, by path."""

    def __init__(self) -> None:
        self.open: dict[str, Written] = {}
        self.used = False


class FileOutput(OutputStream):
    """Writes a file from an offset on, or always at its end."""

    def __init__(self, file: Written, offset: int | None) -> None:
        self._file = file
        self._offset = offset

    def write(self, ctx: GuestCall, data: bytes) -> Ok | Err:
        offset = len(self._file.content) if self._offset is None else self._offset
        code = write_at(ctx, self._file, data, offset)
        if code is not None:
            return failed(ctx, IoError(f"the file cannot be written: {code}", file_code=code))
        if self._offset is not None:
            self._offset += len(data)
        return Ok()


def open_written(ctx: GuestCall, path: str, how: frozenset[str], existing: Written | None, read: bytes) -> Written:
    """Return the file at `path`, open to be written: the one that is open already, or one with the bytes `read`."""
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
    """Write `data` at an offset; bytes between the end and it are zero. Return an error code, or None."""
    code = set_size(ctx, file, max(len(file.content), offset + len(data)))
    if code is None:
        file.content[offset : offset + len(data)] = data
    return code


def set_size(ctx: GuestCall, file: Written, size: int) -> str | None:
    """Cut a file, or fill it up with zeros. Return an error code, or None."""
    if file.gone:
        return "no-entry"
    most = ctx.services.max_write_bytes
    if size > most:
        # Told here, since it is never sent; what the host is sent it measures itself.
        rule, hint = f"a file may have {most} bytes", "raise workspace_write.max_file_bytes if it really needs more"
        subject = file.path.encode("unicode_escape").decode("ascii")
        ctx.services.handle(Refuse(Decision(False, Reason.FILE_TOO_LARGE, rule, hint, "workspace_write", subject)))
        return "file-too-large"
    if size < len(file.content):
        del file.content[size:]
    else:
        file.content += bytes(size - len(file.content))
        check_size(ctx)
    file.dirty = True
    return None


def check_size(ctx: GuestCall) -> None:
    """Hold all open files together to a bound.

    Raises:
        BudgetExceededError: they are too large.
    """
    used = sum(len(file.content) for file in ctx.part(WrittenFiles).open.values())
    if used > MAX_WRITE_BYTES:
        raise BudgetExceededError(
            f"the guest holds more than {MAX_WRITE_BYTES:,} bytes of files that it writes",
            limit=MAX_WRITE_BYTES, used=used, setting="limits.MAX_WRITE_BYTES",
            hint="have the tool close each file before it opens the next",
        )  # fmt: skip


def keep(ctx: GuestCall, file: Written) -> Err | None:
    """Give the host what it does not have of a file. Return the error where it refuses."""
    try:
        _send(ctx, file)
    except HostFailure as failure:
        return Err(write_code(failure))
    return None


def close_written(ctx: GuestCall, file: Written) -> None:
    """Take one descriptor less; the last one closes the file.

    Raises:
        ToolError: it cannot be kept. Closing has no result, and a guest must not believe that it is.
    """
    file.handles -= 1
    if not file.handles and ctx.part(WrittenFiles).open.get(file.path) is file:
        del ctx.part(WrittenFiles).open[file.path]
    _keep_or_raise(ctx, file)


def finish_files(ctx: GuestCall) -> None:
    """Keep what a guest that has ended well did not close.

    Raises:
        ToolError: as `close_written`.
    """
    for file in list(ctx.part(WrittenFiles).open.values()):
        _keep_or_raise(ctx, file)


def forget(ctx: GuestCall, path: str) -> None:
    """Let go of a file whose name is gone."""
    file = ctx.part(WrittenFiles).open.pop(path, None)
    if file is not None:
        file.gone = True


def moved(ctx: GuestCall, path: str, to: str) -> None:
    """Follow a file, or a folder with all that is in it, to another name."""
    files = ctx.part(WrittenFiles).open
    for known in [known for known in files if known == path or known.startswith(f"{path}/")]:
        file = files.pop(known)
        file.path = to + known[len(path) :]
        files[file.path] = file


def write_code(failure: HostFailure) -> str:
    """Return the code of wasi:filesystem for a refusal of the host's."""
    return _CODES.get(failure.code, "access")


def _send(ctx: GuestCall, file: Written) -> None:
    if file.dirty and not file.gone:
        file.dirty = False  # a host that has refused once is not asked again
        ctx.services.handle(WorkspaceWrite(file.path, bytes(file.content)))


def _keep_or_raise(ctx: GuestCall, file: Written) -> None:
    try:
        _send(ctx, file)
    except HostFailure as failure:
        raise ToolError(f"a file that the tool wrote could not be kept: {failure.message}", code="not-written") from (
            failure
        )
