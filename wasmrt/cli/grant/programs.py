"""WASI programs as sources of tools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from wasmrt.catalog.sources import Fetched, Source, read_source
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core.errors import CoreModuleError, UnknownWorldError
from wasmrt.core.limits import MAX_ADAPTER_BYTES
from wasmrt.sandbox.component import check_header, worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSource:
    """A WASI program: a component of `wasi:cli/command`, or a core module for WASI preview 1."""

    file: Source
    adapter: Path | None
    """Adapter for core modules to use instead of the downloaded one."""
    yes: bool
    as_json: bool

    def fetch(self, *, max_bytes: int) -> Fetched:
        """Read the program and its capability file, and turn a core module into a component.

        Raises:
            SourceError: a file cannot be read.
            BuildError: the module cannot be adapted.
            UnknownWorldError: the component is not a program.
        """
        fetched = self.file.fetch(max_bytes=max_bytes)
        try:
            check_header(fetched.data, max_bytes=max_bytes)
        except CoreModuleError:
            fetched = self._adapt_to_component(fetched)
        found = WasmValidator(max_bytes=max_bytes).validate(fetched.data)
        found.raise_first()
        if worlds.exported_program(found.exports) is None:
            raise UnknownWorldError(
                "the component is not a program: it does not export only wasi:cli/run",
                hint="omit --command to install its functions",
            )
        return fetched

    def _adapt_to_component(self, fetched: Fetched) -> Fetched:
        from wasmrt.authoring.project import adapt_program, find_adapter  # loads the build modules
        from wasmrt.cli.author.progress import confirm_with, showing_output
        from wasmrt.cli.shared.progress import report_progress

        quiet = self.as_json
        with showing_output(quiet=quiet):
            if self.adapter is None:
                confirm = confirm_with(yes=self.yes, as_json=self.as_json)
                adapter = find_adapter(confirm=confirm, progress=report_progress(quiet=quiet))
            else:
                adapter = read_source(self.adapter, "adapter", max_bytes=MAX_ADAPTER_BYTES)
            return replace(fetched, data=adapt_program(fetched.data, adapter))
