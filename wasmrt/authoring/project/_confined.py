"""Compilers and build scripts of strangers' projects: confined to the project, their caches and the toolchain.

A project's own code runs when it is built: build scripts, macros, the settings of a compiler. It may write the project
and this language's private cache, read the system, the toolchain and what was fetched, and nothing else of the user's;
the network is there only while packages are fetched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from wasmrt.authoring.project._placeholders import fill
from wasmrt.authoring.project._project import Project
from wasmrt.authoring.project._template import Template
from wasmrt.authoring.project._toolchain import Toolchain
from wasmrt.sandbox.isolation.confine import BUILD_TOOL, Command, confined_command, layers

_NEEDED = frozenset({"seccomp", "landlock"})
# Those of a proxy may hold a password: a project's code does not see them.
_WHILE_FETCHING = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CARGO_HTTP_CAINFO", "CARGO_HTTP_PROXY", "GOPROXY", "GONOSUMDB", "GOSUMDB"),
)
_KEPT = ("RUSTUP_TOOLCHAIN", "GOROOT", "SOURCE_DATE_EPOCH")


@dataclass(frozen=True, slots=True)
class BuildRoom:
    """The room in which one project is built: what its commands may reach, and which variables they see."""

    project: Path
    toolchain: Toolchain
    template: Template
    homes: Mapping[str, Path]
    """The toolchain's folders in the user's home, by the variable that names each."""
    temporary: Path
    missing: tuple[str, ...]
    """Layers that this machine lacks; where there is one, nothing is confined."""

    @property
    def sentence(self) -> str:
        """The confinement in words, for the person who builds."""
        if self.missing:
            return f"not confined, for want of {' and '.join(self.missing)}: the project's code may do what you may"
        fetching = "the network only while fetching" if self.template.fetch else "no network"
        return f"confined to the project, its cache and the toolchain; {fetching}"

    def command(self, words: Sequence[str], env: Mapping[str, str], *, fetching: bool) -> Command:
        """Return the command that runs `words` in this room; `fetching` gives it the network and the shared caches."""
        if self.missing:
            return Command(list(words), {**os.environ, **self.variables(fetching=True), **env})
        values = {variable.lower(): str(home) for variable, home in self.homes.items()}
        fetched = self._named(self.template.fetched, values)
        here = [str(self.project), str(self.toolchain.cache)]
        return confined_command(
            BUILD_TOOL,
            words,
            env={**self.variables(fetching=fetching), **env},
            read=[str(self.template.folder), *fetched, *self._named(self.template.settings, values)],
            write=[*here, *(fetched if fetching else ())],
            execute=[
                str(self.toolchain.cache),  # where build scripts are compiled to
                *self._named(self.template.toolchain, values),
                *self._places(words[0]),
            ],
            network=fetching,
        )

    def variables(self, *, fetching: bool, temporary: str | None = None) -> dict[str, str]:
        """Return the variables that its commands see, besides their own; with `temporary` in place of its TMPDIR."""
        names = (*_KEPT, *(_WHILE_FETCHING if fetching else ()))
        return {
            **{name: os.environ[name] for name in names if name in os.environ},
            **{variable: str(home) for variable, home in self.homes.items()},
            "HOME": str(Path.home()),  # a name alone: nothing in it can be read but what is named here
            "PATH": self.toolchain.path,
            "TMPDIR": str(self.temporary) if temporary is None else temporary,
        }

    def _places(self, command: str) -> Iterator[str]:
        """Yield the folders of the command and of wasmrt's own Python: those of a package where it is in one."""
        yield from {sys.prefix, sys.base_prefix}
        for folder in self.toolchain.folders:
            yield str(folder.parent)
        path, home = Path(command).resolve(), Path.home().resolve()
        package = path.parent.parent if path.parent.name == "bin" else path.parent
        # SECURITY: a folder right in the home has more in it than programs: ~/.cargo the tokens of a registry, ~/.local
        # a keyring.
        if home in (package, package.parent) or package in home.parents or package in self.homes.values():
            yield from _existing([str(path), str(package / "lib")] if path.parent.name == "bin" else [str(path)])
        else:
            yield str(package)

    @staticmethod
    def _named(paths: Iterable[str], values: Mapping[str, str]) -> list[str]:
        return _existing(fill(path, values) for path in paths)


@contextmanager
def build_room(template: Template, project: Project, toolchain: Toolchain) -> Iterator[BuildRoom]:
    """Make the room in which a project is built, with a folder for temporary files of its own."""
    homes = {
        variable: Path(os.environ.get(variable) or Path(usual).expanduser()).resolve()
        for variable, usual in template.homes.items()
    }
    standing = {layer.name for layer in layers() if layer.standing}
    with TemporaryDirectory(prefix="tmp-", dir=toolchain.cache, ignore_cleanup_errors=True) as temporary:
        yield BuildRoom(
            project.folder.resolve(), toolchain, template, homes, Path(temporary), tuple(sorted(_NEEDED - standing))
        )


def _existing(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if Path(path).exists()]
