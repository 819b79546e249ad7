"""Map the imports of a component to sections of a capability file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wasmrt.capabilities.kinds import BY_SECTION, KINDS

_REFUSED = ("wasi:sockets/tcp-create-socket", "wasi:sockets/udp-create-socket", "wasi:sockets/ip-name-lookup")
_SECTIONS: Mapping[str, str] = {name: kind.section for kind in KINDS for name in kind.imports} | dict.fromkeys(
    _REFUSED, "sockets"
)


def find_capabilities(imports: Iterable[str]) -> dict[str, str]:
    """Return the capabilities that a component's imports need, each with the first import that needs it.

    Imports that every tool may use (logs, clocks, random numbers, progress) need no capability.
    """
    needed: dict[str, str] = {}
    for name in sorted(set(imports)):
        bare = _remove_version(name)
        capability = _SECTIONS.get(bare) or _SECTIONS.get(bare.partition("#")[0])
        if capability is not None:
            needed.setdefault(capability, name)
    return needed


def import_example(section: str) -> str:
    """Return an example of an import that uses a section."""
    kind = BY_SECTION[section]
    return (*kind.usable_imports, *kind.imports)[0]


def uses_section(section: str, imports: Iterable[str]) -> bool:
    """Return whether a component with these imports can use a section."""
    names = tuple(imports)
    usable = BY_SECTION[section].usable_imports if section in BY_SECTION else ()
    return section in find_capabilities(names) or any(
        _remove_version(name).partition("#")[0] in usable for name in names
    )


def needs_section(section: str, imports: Iterable[str], granted: Iterable[str]) -> bool:
    """Return whether the imports need a section, and it is neither granted nor replaced by another granted section."""
    names = tuple(imports)
    replaced = {BY_SECTION[name].replaces for name in granted if uses_section(name, names)}
    return section in find_capabilities(names) and section not in granted and section not in replaced


def _remove_version(name: str) -> str:
    interface, mark, function = name.partition("#")
    return interface.partition("@")[0] + mark + function
