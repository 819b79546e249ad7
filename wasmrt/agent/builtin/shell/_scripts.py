"""Files that a command line runs or restores. An approval covers the content of the files that it showed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from blake3 import blake3

from wasmrt.agent.builtin.shell._decide import decide_command, files_to_run, restored_paths
from wasmrt.agent.builtin.shell._known import DISCARDS
from wasmrt.agent.builtin.shell._session import State
from wasmrt.agent.builtin.shell._verdict import Action, Verdict
from wasmrt.core.errors import NotAuthorizedError
from wasmrt.core.files import UnfitFileError, read_file
from wasmrt.core.limits import MIB

_MAX_FILES = 16
_MAX_BYTES = MIB


def decide_in(root: Callable[[], Path], command: str, start: State, programs: tuple[str, ...]) -> Verdict:
    """Decide about a command line as `decide_command` does; git checkout of an existing path requires an approval."""
    verdict = decide_command(command, start, programs)
    if verdict.action is Action.RUN and any(
        root().joinpath(*path.parts).exists() for path in restored_paths(command, start)
    ):
        return Verdict(Action.ASK, "grammar", "arguments", DISCARDS, command[:200])
    return verdict


def describe_files(command: str, start: State, programs: tuple[str, ...], root: Path) -> tuple[str, ...]:
    """Return a line for each workspace file that a command line may run. The last of 16 lines covers all others."""
    lines = tuple(_iter_lines(command, start, programs, root))
    more = lines[_MAX_FILES - 1 :]
    if len(more) < 2:
        return lines
    return (*lines[: _MAX_FILES - 1], f"runs {len(more)} more files, content {_digest_lines(more)[:16]}")


def digest_files(command: str, start: State, programs: tuple[str, ...], root: Path) -> str:
    """Return the digest of all files that `describe_files` describes; empty if there are none."""
    lines = tuple(_iter_lines(command, start, programs, root))
    return _digest_lines(lines) if lines else ""


def _digest_lines(lines: tuple[str, ...]) -> str:
    return blake3("\n".join(lines).encode("utf-8", "replace")).hexdigest()


def _iter_lines(command: str, start: State, programs: tuple[str, ...], root: Path) -> Iterator[str]:
    for path in files_to_run(command, start, programs):
        target = root.joinpath(*path.parts)
        try:
            if target.resolve().is_relative_to(root) and target.is_file():
                digest = blake3(read_file(target.resolve(), max_bytes=_MAX_BYTES, follow_link=False)).hexdigest()
                yield f"runs {'/'.join(path.parts)}, content {digest[:16]}"
        except UnfitFileError:
            found = target.stat()  # SECURITY: only the kernel sets the time of the last change.
            state = f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_ctime_ns}"
            yield f"runs {'/'.join(path.parts)}, too large to read, state {blake3(state.encode()).hexdigest()[:16]}"
        except OSError:
            continue


def check_content(
    shown: str | None, confirmed: str | None, command: str, start: State, programs: tuple[str, ...], root: Path
) -> None:
    """Check that the files in a command line still have the content that the approval showed or the token covers.

    SECURITY: an approval covers only the content that it showed.

    Raises:
        NotAuthorizedError: a file has changed since then.
    """
    if shown is not None:
        _check_shown(shown, describe_files(command, start, programs, root))
    elif confirmed is not None:
        _check_confirmed(confirmed, digest_files(command, start, programs, root))


def _check_shown(shown: str, now: tuple[str, ...]) -> None:
    lines = shown.splitlines()
    changed = next((each for each in now if each not in lines), None)
    if changed is not None:
        name = changed.removeprefix("runs ").rpartition(",")[0]
        raise NotAuthorizedError(
            f"the file {name!r:.200} has changed since the approval",
            code="file-changed", hint="retry the call: its approval shows the new content's digest",
        )  # fmt: skip


def _check_confirmed(confirmed: str, now: str) -> None:
    if now and confirmed != now:
        raise NotAuthorizedError(
            "the confirmation token does not cover the current content of the files that the command runs",
            code="file-not-confirmed",
            hint="ask the user again, and issue the token with `content` from ShellTool.content_digest",
        )  # fmt: skip
