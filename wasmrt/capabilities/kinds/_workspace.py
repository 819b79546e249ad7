"""The capabilities to read and to write the workspace below path prefixes, with bounds for the writes of a call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from wasmrt.capabilities._fields import Field, Flag, ListOf, Number, ObjectSchema, Problems, Property, Text
from wasmrt.capabilities._phrases import format_bytes, join_words
from wasmrt.capabilities.kinds._capability import (
    WIDER,
    Change,
    FileWarning,
    Flow,
    PatternCapability,
    intersect_entries,
)
from wasmrt.capabilities.model import (
    check_numbers,
    is_under_prefixes,
    path_problem,
    plain_path,
    protected_problem,
    read_prefix,
    remove_duplicates,
    set_checked_tuple,
)
from wasmrt.capabilities.services import Service
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import (
    DEFAULT_WRITE_BYTES,
    DEFAULT_WRITE_FILE_BYTES,
    DEFAULT_WRITE_FILES,
    MAX_PATH_BYTES,
    MAX_WRITE_BYTES,
    MAX_WRITE_FILES,
)
from wasmrt.core.model import Addition, Decision, GrantList, Reason, Suggestion
from wasmrt.core.url import Network


def _read_listed_prefix(text: str) -> str:
    if not text:
        raise ConfigurationError("the prefix is empty", hint="write true for the whole workspace")
    return read_prefix(text)


_LISTED_PREFIXES = ListOf(item=Text(check=_read_listed_prefix))


class _Prefixes(Field):
    """A list of prefixes, or `true` for the whole workspace."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        return [""] if value is True else _LISTED_PREFIXES.read(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"const": True}, _LISTED_PREFIXES.schema()]}


class _Section(Field):
    """A section: an object, `true` for the whole workspace, or `false` for no access."""

    def __init__(self, listed: ObjectSchema) -> None:
        self._listed = listed

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if isinstance(value, bool):
            return {"allowed_prefixes": [""]} if value else None
        return self._listed.read(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, self._listed.schema()]}


class _Prefixed(PatternCapability):
    """A capability for the files under certain prefixes of the workspace."""

    __slots__ = ()
    allowed_prefixes: tuple[str, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        return self.allowed_prefixes

    @staticmethod
    def within(inner: str, outer: str) -> bool:
        return inner == outer or not outer or (bool(inner) and is_under_prefixes(inner, (outer,)))

    @classmethod
    def addition_tree(cls, entry: Any) -> Any:
        # SECURITY: the value is compared to "", because other falsy values do not mean the whole workspace.
        return True if entry == "" else {"allowed_prefixes": [entry]}

    def describe(self, entry: str) -> str:
        return f"may {self.act[0]} {format_prefix(entry)}"

    def allows(self, path: str) -> bool:
        """Return whether a valid path is under one of the prefixes. Only complete path segments match."""
        return is_under_prefixes(path, self.allowed_prefixes)

    @classmethod
    def decide(cls, granted: Self | None, use: str) -> Decision:
        return _decide_path(cls, granted, use)

    def warnings(self) -> Iterator[FileWarning]:
        if not self.allowed_prefixes:
            yield FileWarning(str(self.grant_list), "an empty list allows nothing; true allows the whole workspace")


def _set_prefixes(owner: _Prefixed) -> None:
    set_checked_tuple(owner, "allowed_prefixes", str)
    prefixes = remove_duplicates(read_prefix, owner.allowed_prefixes)
    object.__setattr__(owner, "allowed_prefixes", ("",) if "" in prefixes else prefixes)


@dataclass(frozen=True, slots=True)
class WorkspaceCapability(_Prefixed):
    """The parts of the workspace that may be read. The prefix `""` covers the whole workspace; an empty list, nothing.

    Examples:
        >>> from wasmrt import WorkspaceCapability
        >>> reports = WorkspaceCapability(("reports/",))
        >>> reports.allows("reports/may.txt"), reports.allows("notes.txt")
        (True, False)
    """

    allowed_prefixes: tuple[str, ...] = ()

    section: ClassVar = "workspace"
    attribute: ClassVar = "workspace_read"
    grant_list: ClassVar = GrantList("workspace.allowed_prefixes", everything='""')
    amendments: ClassVar = ("workspace",)
    use: ClassVar = ("path", "a read of this workspace path")
    act: ClassVar = ("read", "files")
    imports: ClassVar = ("wasmrt:tool/workspace", "wasi:filesystem/preopens", "near:agent/host#workspace-read")
    file_section: ClassVar = Property(
        field=_Section(
            ObjectSchema(
                {
                    "allowed_prefixes": Property(
                        field=_LISTED_PREFIXES,
                        about="Paths, such as 'context/'; an empty list allows nothing.",
                        required=True,
                    )
                }
            )
        ),
        about="Files that may be read.",
        aliases=("workspace_read",),
    )

    def __post_init__(self) -> None:
        _set_prefixes(self)

    @classmethod
    def build(cls, tree: Any, outer: Self | None, place: str, problems: Problems) -> Self:
        return cls(tree["allowed_prefixes"])

    def as_json(self, outer: Self | None) -> Any:
        return True if "" in self.allowed_prefixes else {"allowed_prefixes": list(self.allowed_prefixes)}

    def with_entries(self, entries: Iterable[str]) -> Self:
        return type(self)(tuple(entries))

    def intersect(self, other: Self) -> Self:
        return self.with_entries(intersect_entries(self.entries, other.entries, self.within))

    def effects(self) -> frozenset[Effect]:
        return frozenset({Effect.READ_FILESYSTEM} if self.allowed_prefixes else ())

    def within_effects(self, effects: frozenset[Effect]) -> Self | None:
        return self if Effect.READ_FILESYSTEM in effects else None

    def sentences(self, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
        return map(self.describe, self.allowed_prefixes)

    def flow(self, networks: Sequence[Network]) -> Flow:
        if "" in self.allowed_prefixes:
            return Flow("anywhere in the workspace")
        return Flow(f"under {join_words(self.allowed_prefixes)}" if self.allowed_prefixes else "")

    def warnings(self) -> Iterator[FileWarning]:
        yield from _Prefixed.warnings(self)
        if "" in self.allowed_prefixes:
            yield FileWarning(self.section, "every file of the workspace may be read")


@dataclass(frozen=True, slots=True)
class WorkspaceWriteCapability(_Prefixed):
    """The parts of the workspace that may be written, and bounds for writes.

    The prefix `""` covers the whole workspace. Reading is a separate capability. Identity files and wasmrt's own files
    can never be written.
    """

    allowed_prefixes: tuple[str, ...] = ()
    max_file_bytes: int = DEFAULT_WRITE_FILE_BYTES
    """The maximum size of one file."""
    max_bytes: int = DEFAULT_WRITE_BYTES
    """The maximum total size of all writes of one call. A file that is written twice counts twice."""
    max_files: int = DEFAULT_WRITE_FILES
    """The maximum number of files and folders that one call creates, writes, moves or removes."""
    remove: bool = False
    """True if a call may remove files and empty folders that the call itself has not created."""

    section: ClassVar = "workspace_write"
    attribute: ClassVar = "workspace_write"
    grant_list: ClassVar = GrantList("workspace_write.allowed_prefixes", everything='""')
    amendments: ClassVar = ("workspace_write",)
    number_names: ClassVar = {
        "max_file_bytes": "a file's size",
        "max_bytes": "total size of a call's writes",
        "max_files": "files that a call writes",
    }
    use: ClassVar = ("write", "a write to this workspace path")
    act: ClassVar = ("write", "files")
    imports: ClassVar = tuple(
        f"wasmrt:tool/workspace#{name}"
        for name in ("write", "write-text", "copy", "make-directory", "remove", "rename")
    )
    usable_imports: ClassVar = ("wasi:filesystem/preopens",)
    replaces: ClassVar = WorkspaceCapability.section
    file_section: ClassVar = Property(
        field=_Section(
            ObjectSchema(
                {
                    "allowed_prefixes": Property(
                        field=_Prefixes(),
                        about="Paths, such as 'out/', or true for the whole workspace.",
                        required=True,
                    ),
                    "max_file_bytes": Property(
                        field=Number(maximum=MAX_WRITE_BYTES, example="1048576 for 1 MiB"),
                        about="Maximum size of one file; 5 MiB by default.",
                    ),
                    "max_bytes": Property(
                        field=Number(maximum=MAX_WRITE_BYTES),
                        about="Maximum total size of all writes of a call; 16 MiB by default.",
                    ),
                    "max_files": Property(
                        field=Number(maximum=MAX_WRITE_FILES),
                        about="Maximum number of files that a call changes; 100 by default.",
                    ),
                    "remove": Property(field=Flag(), about="True if a call may remove existing files."),
                }
            )
        ),
        about="Files that may be written. Reading them requires the section `workspace`.",
    )

    def __post_init__(self) -> None:
        _set_prefixes(self)
        check_numbers(self, "max_file_bytes", "max_bytes", maximum=MAX_WRITE_BYTES)
        check_numbers(self, "max_files", maximum=MAX_WRITE_FILES)
        if not isinstance(self.remove, bool):
            raise ConfigurationError('"remove" must be true or false')

    @classmethod
    def build(cls, tree: Any, outer: Self | None, place: str, problems: Problems) -> Self:
        return replace(cls() if outer is None else outer, **{"remove": False} | tree)

    def as_json(self, outer: Self | None) -> Any:
        most = (outer or WorkspaceWriteCapability()).numbers()
        more: dict[str, Any] = {name: number for name, number in self.numbers().items() if number != most[name]}
        more |= {"remove": True} if self.remove else {}
        if "" not in self.allowed_prefixes:
            return {"allowed_prefixes": list(self.allowed_prefixes)} | more
        return {"allowed_prefixes": True} | more if more else True

    def numbers(self) -> dict[str, float]:
        return {"max_file_bytes": self.max_file_bytes, "max_bytes": self.max_bytes, "max_files": self.max_files}

    def with_entries(self, entries: Iterable[str]) -> Self:
        return replace(self, allowed_prefixes=tuple(entries))

    def beyond(self, outer: Self | None) -> Iterator[tuple[str, str]]:
        yield from _Prefixed.beyond(self, outer)
        if self.remove and not (outer is not None and outer.remove):
            yield f"{self.section}.remove", WIDER

    def intersect(self, other: Self) -> Self:
        return replace(
            self.with_entries(intersect_entries(self.entries, other.entries, self.within)),
            max_file_bytes=min(self.max_file_bytes, other.max_file_bytes),
            max_bytes=min(self.max_bytes, other.max_bytes),
            max_files=min(self.max_files, other.max_files),
            remove=self.remove and other.remove,
        )

    def within_folders(self, paths: Iterable[str]) -> Self:
        """Restrict writing to these folders of the workspace.

        Raises:
            ConfigurationError: a folder is not a valid prefix.
        """
        folders = WorkspaceWriteCapability(tuple(paths)).allowed_prefixes
        return self.with_entries(intersect_entries(self.entries, folders, self.within))

    def effects(self) -> frozenset[Effect]:
        if not self.allowed_prefixes:
            return frozenset()
        return frozenset({Effect.WRITE_FILESYSTEM} | ({Effect.DELETE_FILESYSTEM} if self.remove else set()))

    def within_effects(self, effects: frozenset[Effect]) -> Self | None:
        if Effect.WRITE_FILESYSTEM not in effects:
            return None
        return self if Effect.DELETE_FILESYSTEM in effects else replace(self, remove=False)

    def sentences(self, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
        written = [prefix for prefix in self.allowed_prefixes if not prefix or protected_problem(prefix) is None]
        for prefix in self.allowed_prefixes:
            if prefix not in written:
                yield f"asks to write {format_prefix(prefix)}, which is refused: {protected_problem(prefix)}"
            else:
                yield self.describe(prefix)
        if written:
            files = "file" if self.max_files == 1 else "files"
            yield (
                f"may write at most {format_bytes(self.max_bytes)} to {self.max_files:,} {files} in a call, each of at "
                f"most {format_bytes(self.max_file_bytes)}{', and remove existing files' if self.remove else ''}"
            )
            yield "may not write the agent's identity files, such as AGENTS.md, or capability files"

    def added_settings(self, before: Self | None) -> Iterator[Change]:
        if self.remove and not (before and before.remove):
            yield Change(f"{self.section}.remove", "may remove files that existed before the call")

    def warnings(self) -> Iterator[FileWarning]:
        yield from _Prefixed.warnings(self)
        if "" in self.allowed_prefixes:
            yield FileWarning(self.section, "every file of the workspace may be written, except protected files")
        if self.remove:
            yield FileWarning(f"{self.section}.remove", "a call may remove files that existed before it")


def _decide_path(kind: type[_Prefixed], granted: _Prefixed | None, path: str) -> Decision:
    """Decide whether a path may be read (`WorkspaceCapability`) or written (`WorkspaceWriteCapability`).

    The decision depends only on the text of the path, not on the file system.
    """

    def deny(reason: Reason, rule: str, suggestion: str | Suggestion) -> Decision:
        return Decision(False, reason, rule, suggestion, kind.section, subject)

    subject = path[:MAX_PATH_BYTES].encode("unicode_escape").decode("ascii") if isinstance(path, str) else ""
    problem = path_problem(path)
    if problem:
        return deny(Reason.INVALID_PATH, problem, 'write a path relative to the workspace, like "context/notes.md"')
    if kind is WorkspaceWriteCapability and (problem := protected_problem(path)) is not None:
        # SECURITY: checked before the grant. Otherwise the denial would suggest an entry that cannot allow this file.
        return deny(Reason.PROTECTED_FILE, problem, "let the tool write a different file")
    plain = plain_path(path)
    folder = plain.rpartition("/")[0]
    prefix = json.dumps(f"{folder}/" if folder else plain)
    if granted is None:
        addition = Addition(kind.grant_list, prefix, new_section=True)
        return deny(Reason.NOT_GRANTED, f"no {kind.section} section", addition)
    for index, allowed in enumerate(granted.allowed_prefixes):
        if is_under_prefixes(path, (allowed,)):
            rule = f"{kind.grant_list}[{index}]"
            return Decision(True, Reason.ALLOWED, rule, capability=kind.section, subject=subject)
    rule = f"no entry of {kind.grant_list} covers this path"
    return deny(Reason.PREFIX_NOT_ALLOWED, rule, Addition(kind.grant_list, prefix))


def format_prefix(prefix: str) -> str:
    """Format a prefix of the workspace: `files under context/`."""
    if not prefix:
        return "every file of the workspace"
    return f"files under {prefix}" if prefix.endswith("/") else f"{prefix} and files under {prefix}/"
