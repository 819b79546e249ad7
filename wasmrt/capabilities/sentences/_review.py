"""Warn about entries of a valid capability file that the user should review."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities._fields import child
from wasmrt.capabilities._imports import capabilities_of, import_example, needs_section, uses_section
from wasmrt.capabilities.file import SECTIONS, CapabilityFile
from wasmrt.capabilities.kinds import KINDS, FileWarning

_READ_SECTIONS = frozenset({"setup", "$schema", "discovery_summary", "license", "source"})


def review(file: CapabilityFile, imports: Iterable[str] | None = None) -> tuple[FileWarning, ...]:
    """Return warnings about a capability file and, if `imports` are given, about sections that do not fit the imports.

    An import is a name as in the component (`wasmrt:tool/http@0.1.0`), optionally with a function (`#http-request`).
    """
    warnings = [each for part in file.capabilities.parts for each in part.warnings()]
    warnings += _on_sections(file)
    if imports is not None:
        warnings += _on_imports(file.capabilities, imports)
    return tuple(warnings)


def _on_sections(file: CapabilityFile) -> Iterator[FileWarning]:
    places = {"auth": file.auth} | {child("logins", login.vendor): login for login in file.logins}
    for at, login in places.items():
        if login and login.oauth and login.oauth.client_secret:
            yield FileWarning(
                f"{at}.oauth.client_secret", 'a client secret in a file is public; use "client_secret_env" instead'
            )
    for name in file.sections:
        if name not in _READ_SECTIONS:
            yield FileWarning(name, f"wasmrt does not act on this section: {SECTIONS[name].about}")


def _on_imports(capabilities: Capabilities, imports: Iterable[str]) -> Iterator[FileWarning]:
    imports = tuple(imports)
    needed, granted = capabilities_of(imports), [part.section for part in capabilities.parts]
    for name in (kind.section for kind in KINDS):
        if needs_section(name, imports, granted):
            yield FileWarning(
                name, f'calls of the import {needed[name]} will be denied, because the file has no section "{name}"'
            )
        if name in granted and not uses_section(name, imports):
            example = import_example(name)
            yield FileWarning(name, f"the section is unused: the component lacks an import for it, such as {example}")
    if needed.get("sockets"):
        yield FileWarning(
            "$", f"the component imports {needed['sockets']}, but sockets are always refused; use HTTP requests instead"
        )
