"""Confine compilers and build scripts to the project, their caches and the toolchain.

Building a project runs its code: build scripts, macros, compiler settings. That code may write the project and the
language's private cache, and read the system, the toolchain and downloaded packages, but no other files of the user.
The network is available only while packages are fetched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from wasmrt.authoring.project._project import Project
from wasmrt.authoring.project._template import Template, fill
from wasmrt.authoring.project._toolchain import Toolchain
from wasmrt.sandbox.isolation.confine import BUILD_TOOL, Command, confined_command, layers

_NEEDED = frozenset({"seccomp", "landlock"})
# SECURITY: proxy variables may contain a password, so the project's code does not get them.
_FETCH_VARIABLES = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CARGO_HTTP_CAINFO", "CARGO_HTTP_PROXY", "GOPROXY", "GONOSUMDB", "GOSUMDB"),
)
_BUILD_VARIABLES = ("RUSTUP_TOOLCHAIN", "GOROOT", "SOURCE_DATE_EPOCH")


@dataclass(frozen=True, slots=True)
class BuildSandbox:
    """The confinement of a project's build: the files and variables that its commands may use."""

    project: Path
    toolchain: Toolchain
    template: Template
    homes: Mapping[str, Path]
    """The toolchain's folders in the user's home, by their environment variables."""
    temporary: Path
    missing: tuple[str, ...]
    """Isolation layers that this machine does not have. If there are any, builds are not confined."""

    @property
    def sentence(self) -> str:
        """A description of the confinement for the user."""
        if self.missing:
            return f"not confined (missing: {', '.join(self.missing)}): the project's code has your rights"
        fetching = "the network only while fetching" if self.template.fetch else "no network"
        return f"confined to the project, its cache and the toolchain; {fetching}"

    def command(self, words: Sequence[str], env: Mapping[str, str], *, fetching: bool) -> Command:
        """Return the command that runs `words` confined; with `fetching`, also with the network and shared caches."""
        if self.missing:
            return Command(list(words), {**os.environ, **self.variables(fetching=True), **env})
        values = {variable.lower(): str(home) for variable, home in self.homes.items()}
        fetched = _filter_existing(fill(path, values) for path in self.template.fetched)
        settings = _filter_existing(fill(path, values) for path in self.template.settings)
        toolchain = _filter_existing(fill(path, values) for path in self.template.toolchain)
        own = [str(self.project), str(self.toolchain.cache)]
        return confined_command(
            BUILD_TOOL,
            words,
            env={**self.variables(fetching=fetching), **env},
            read=[str(self.template.folder), *fetched, *settings],
            write=[*own, *(fetched if fetching else ())],
            # Build scripts are compiled into the cache.
            execute=[str(self.toolchain.cache), *toolchain, *self._iter_program_folders(words[0])],
            network=fetching,
        )

    def variables(self, *, fetching: bool, temporary: str | None = None) -> dict[str, str]:
        """Return the environment variables of all commands. `temporary` replaces TMPDIR."""
        names = (*_BUILD_VARIABLES, *(_FETCH_VARIABLES if fetching else ()))
        return {
            **{name: os.environ[name] for name in names if name in os.environ},
            **{variable: str(home) for variable, home in self.homes.items()},
            "HOME": str(Path.home()),  # in this folder, only the allowed files can be read
            "PATH": self.toolchain.path,
            "TMPDIR": str(self.temporary) if temporary is None else temporary,
        }

    def _iter_program_folders(self, command: str) -> Iterator[str]:
        """Yield the folders of the command's package and of wasmrt's Python."""
        yield from {sys.prefix, sys.base_prefix}
        for folder in self.toolchain.folders:
            yield str(folder.parent)
        path, home = Path(command).resolve(), Path.home().resolve()
        package = path.parent.parent if path.parent.name == "bin" else path.parent
        # SECURITY: folders directly in the home contain more than programs, such as registry tokens in ~/.cargo and
        # a keyring in ~/.local, so only the command itself and its libraries are allowed.
        if home in (package, package.parent) or package in home.parents or package in self.homes.values():
            yield from _filter_existing([str(path), str(package / "lib")] if path.parent.name == "bin" else [str(path)])
        else:
            yield str(package)


@contextmanager
def open_sandbox(template: Template, project: Project, toolchain: Toolchain) -> Iterator[BuildSandbox]:
    """Open the sandbox of a project's build, with a separate folder for temporary files."""
    homes = {
        variable: Path(os.environ.get(variable) or Path(usual).expanduser()).resolve()
        for variable, usual in template.homes.items()
    }
    with TemporaryDirectory(prefix="tmp-", dir=toolchain.cache, ignore_cleanup_errors=True) as temporary:
        yield BuildSandbox(project.folder.resolve(), toolchain, template, homes, Path(temporary), missing_layers())


def missing_layers() -> tuple[str, ...]:
    """Return the isolation layers that builds need and this machine does not have."""
    return tuple(sorted(_NEEDED - {layer.name for layer in layers() if layer.standing}))


def _filter_existing(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if Path(path).exists()]
