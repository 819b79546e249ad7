"""`wasmrt install --command`: a program for WASI, made a component where it is not one yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from wasmrt.authoring.project import adapt_program, find_adapter
from wasmrt.catalog.sources import Fetched, FileSource, read_source
from wasmrt.catalog.validator import WasmValidator
from wasmrt.cli.author.progress import confirm_with, report_progress, showing_output
from wasmrt.core.errors import CoreModuleError, UnknownWorldError
from wasmrt.core.limits import MAX_ADAPTER_BYTES
from wasmrt.sandbox.component import check_header, worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSource:
    """The file of a program: a component of `wasi:cli/command`, or a core module for WASI preview 1."""

    file: FileSource
    adapter: Path | None
    """A file to adapt a core module with, in place of the one that is known."""
    yes: bool
    as_json: bool

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the program, with the capability file beside it or named, and adapt it where it needs that.

        Raises:
            SourceError: a file cannot be read.
            BuildError: it cannot be adapted.
            UnknownWorldError: it is no program.
        """
        fetched = self.file.fetch(max_bytes=max_bytes)
        try:
            check_header(fetched.data, max_bytes=max_bytes)
        except CoreModuleError:
            fetched = self._adapted(fetched)
        found = WasmValidator(max_bytes=max_bytes).validate(fetched.data)
        found.raise_first()
        if worlds.exported_program(found.exports) is None:
            raise UnknownWorldError(
                "the component is no program: it exports something else than wasi:cli/run",
                hint="leave --command out to install its functions",
            )
        return fetched

    def _adapted(self, fetched: Fetched) -> Fetched:
        quiet = self.as_json
        with showing_output(quiet=quiet):
            if self.adapter is None:
                confirm = confirm_with(yes=self.yes, as_json=self.as_json)
                adapter = find_adapter(confirm=confirm, progress=report_progress(quiet=quiet))
            else:
                adapter = read_source(self.adapter, "adapter", max_bytes=MAX_ADAPTER_BYTES)
            return replace(fetched, data=adapt_program(fetched.data, adapter))
