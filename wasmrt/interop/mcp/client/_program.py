"""The program of a server: find it, and confine it to its grants and to the files that it needs to start."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from wasmrt.capabilities import program_network_line
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import Places, find_places
from wasmrt.egress.outlet import EgressProxySession
from wasmrt.egress.secrets import DEFAULT_USER
from wasmrt.interop.mcp.client._definition import declaration_line
from wasmrt.interop.mcp.client._settings import McpServerConfig
from wasmrt.interop.mcp.program_files import find_modules_folder, is_system, required_files
from wasmrt.runtime.workspace import folder_name
from wasmrt.sandbox.isolation.confine import MCP_SERVER, Command, confined_command


@dataclass(frozen=True, slots=True)
class Program:
    """A program and the folders that it may use."""

    argv: tuple[str, ...]
    cwd: str
    home: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    execute: tuple[str, ...]
    network: bool

    def command(self, env: Mapping[str, str], outlet: EgressProxySession | None = None) -> Command:
        """Return the command that runs the confined program with the variables `env` and the proxy `outlet`.

        Raises:
            ConfineError: this system cannot confine the program.
        """
        own = {"HOME": self.home, "TMPDIR": self.home}
        return confined_command(
            MCP_SERVER,
            list(self.argv),
            env={**own, **env, **({} if outlet is None else outlet.env)},
            read=self.read,
            write=(*self.write, self.home),
            execute=self.execute,
            network=self.network,
            outlet=None if outlet is None else outlet.descriptor,
        )


def find_program(server: McpServerConfig, user: str = DEFAULT_USER) -> Program:
    """Find a server's program and the folders that it needs; each user has a separate home directory.

    Raises:
        ConfigurationError: the program does not exist, or is granted something that servers must not have.
    """
    places = find_places()
    found = shutil.which(server.command[0])
    if found is None:
        raise ConfigurationError(
            f"the program {server.command[0]!r:.200} was not found", code="no-program",
            hint="install it, or write its absolute path if it is not in the PATH",
        )  # fmt: skip
    program = Path(os.path.abspath(found))  # noqa: PTH100 - keep links: they identify a virtual environment
    named = list(_iter_named_files(server))
    own = places.mcp_packages / server.name
    given = [Path(path) for path in (server.workspace, *server.read, *server.write) if path]
    given += [path for path in map(Path, named) if not path.is_relative_to(own)]
    _check_folders(given, server.write, places)
    # SECURITY: one user's server must not read the files of another user's server.
    home = places.mcp_homes / server.name / folder_name(user)
    return Program(
        argv=(str(program), *server.command[1:]),
        cwd=server.workspace or str(home),
        home=str(home),
        read=tuple(dict.fromkeys([*filter(None, (server.workspace, *server.read)), *named])),
        write=server.write,
        execute=tuple(dict.fromkeys(str(path) for path in required_files(program))),
        network=server.network,
    )


def consent_lines(server: McpServerConfig, program: Program | None) -> list[str]:
    """Return the consent text as lines, unshortened."""
    return [*_list_grants(server, program), declaration_line(server)]


def _list_grants(server: McpServerConfig, program: Program | None) -> list[str]:
    if program is None:
        lines = [f"the address: {server.url}"]
        return lines + ([f"it is sent the secret {server.bearer}, as a bearer token"] if server.bearer else [])
    lines = []
    if (package := server.package) is not None:
        lines.append(
            f"the package {package.name} {package.version} of {package.registry.label}, whose scripts were not run"
        )
        lines.append(f"with the digest {package.digest}, which covers its dependencies")
    lines += ["the command, without a shell:", *(f"    {part!r}" for part in (program.argv[0], *server.command[1:]))]
    lines += [f"with the variable {name}={value!r}" for name, value in server.env.items()]
    lines += [f"with the variable {name} from the secret {secret}" for name, secret in server.secret_env.items()]
    lines += [f"it reads {path}" for path in program.read]
    lines += [f"it reads and executes {path}" for path in program.execute]
    lines += [f"it writes {path}" for path in program.write]
    if server.hosts:
        reached = [f"it reaches {program_network_line(entry)}" for entry in server.hosts]
        return [*lines, *reached, "through a proxy, and nothing else of the network"]
    return [*lines, "it uses the network without any restrictions" if server.network else "it has no network"]


def _check_folders(given: list[Path], write: tuple[str, ...], places: Places) -> None:
    for path in given:
        if not path.exists():
            raise ConfigurationError(f"{path} does not exist", hint="name an existing file or folder")
        # SECURITY: servers must not reach wasmrt's configuration and secrets.
        own = [places.data] + ([places.cache] if str(path) in write else [])
        for kept in own:
            real, kept = path.resolve(), kept.resolve()
            if kept.is_relative_to(real) or real.is_relative_to(kept):
                raise ConfigurationError(
                    f"a server may not access {path}: it is, or contains, wasmrt's own configuration",
                    hint="name a folder outside wasmrt's own folders",
                )


def _iter_named_files(server: McpServerConfig) -> Iterator[str]:
    """Yield the files that the arguments name by absolute paths; folders need an explicit grant."""
    for part in server.command[1:]:
        path = Path(part)
        if path.is_absolute() and path.is_file() and not is_system(path):
            yield str(find_modules_folder(path) or path)
