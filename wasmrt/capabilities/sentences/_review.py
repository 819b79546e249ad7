"""Warn about entries of a valid capability file that deserve a review."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities._fields import child
from wasmrt.capabilities._imports import capabilities_of, import_example, needs_section, uses_section
from wasmrt.capabilities.file import SECTIONS, CapabilityFile
from wasmrt.capabilities.kinds import KINDS, FileWarning

_READ_SECTIONS = frozenset({"setup", "$schema", "discovery_summary", "license", "source"})


def review(file: CapabilityFile, imports: Iterable[str] | None = None) -> tuple[FileWarning, ...]:
    """Return warnings about a file and, if imports are given, about differences between the file and the imports.

    Imports are named as in the component (`wasmrt:tool/http@0.1.0`), optionally with a function (`...#http-request`).
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
                f"{at}.oauth.client_secret", "a client secret in a file is public; name client_secret_env instead"
            )
    for name in file.sections:
        if name not in _READ_SECTIONS:
            yield FileWarning(name, f"wasmrt does not act on this section: {SECTIONS[name].about}")


def _on_imports(capabilities: Capabilities, imports: Iterable[str]) -> Iterator[FileWarning]:
    imports = tuple(imports)
    needed, granted = capabilities_of(imports), [part.section for part in capabilities.parts]
    for name in (kind.section for kind in KINDS):
        if needs_section(name, imports, granted):
            yield FileWarning(name, f"the component imports {needed[name]}: refused, as no section allows it")
        if name in granted and not uses_section(name, imports):
            yield FileWarning(name, f"no import of the component uses this section (example: {import_example(name)})")
    if needed.get("sockets"):
        yield FileWarning(
            "$", f"the component imports {needed['sockets']}: sockets are always refused, use HTTP requests instead"
        )
