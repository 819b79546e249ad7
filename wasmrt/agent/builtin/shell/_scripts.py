"""Files that a command line runs, with their digests: an approval covers the content that was shown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from blake3 import blake3

from wasmrt.agent.builtin.shell._decide import files_to_run
from wasmrt.agent.builtin.shell._session import Start
from wasmrt.core.errors import NotAuthorizedError
from wasmrt.core.files import UnfitFileError, read_file
from wasmrt.core.limits import MIB

_MAX_FILES = 16
_MAX_BYTES = MIB


def describe_files(command: str, start: Start, programs: tuple[str, ...], root: Path) -> tuple[str, ...]:
    """Return a line for each file of the workspace that a command line names and may run."""
    return tuple(islice(_lines(command, start, programs, root), _MAX_FILES))


def _lines(command: str, start: Start, programs: tuple[str, ...], root: Path) -> Iterator[str]:
    for path in files_to_run(command, start, programs):
        target = root.joinpath(*path.parts)
        try:
            if target.resolve().is_relative_to(root) and target.is_file():
                digest = blake3(read_file(target.resolve(), max_bytes=_MAX_BYTES, follow_link=False)).hexdigest()
                yield f"runs {'/'.join(path.parts)}, content {digest[:16]}"
        except UnfitFileError:
            yield f"runs {'/'.join(path.parts)}, whose content is too large to check"
        except OSError:
            continue


def check_files(shown: str, now: tuple[str, ...]) -> None:
    """Refuse to run a file that has changed since an approval showed it.

    Raises:
        NotAuthorizedError: a file is new or has changed.
    """
    lines = shown.splitlines()
    changed = next((each for each in now if each not in lines), None)
    if changed is not None:
        name = changed.removeprefix("runs ").rpartition(",")[0]
        raise NotAuthorizedError(
            f"the file {name!r:.200} has changed since the approval",
            code="file-changed", hint="retry the call: its approval shows the new content's digest",
        )  # fmt: skip
