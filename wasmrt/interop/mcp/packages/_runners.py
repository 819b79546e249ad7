"""Read the commands of package runners, such as `npx -y PACKAGE`, and refuse commands that cannot work confined."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.mcp.packages._model import PackageRequest, Registry

_NPM = re.compile(
    r"(?P<name>(?:@[A-Za-z0-9~][A-Za-z0-9._~-]{0,100}/)?[A-Za-z0-9~][A-Za-z0-9._~-]{0,100})"
    r"(?:@(?P<version>[A-Za-z0-9.^~<>=*|+ -]{1,64}))?"
)
_PYPI = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?)(?P<extras>\[[A-Za-z0-9._, -]{1,100}\])?"
    r"(?:@(?P<at>[A-Za-z0-9.!+-]{1,64})|(?P<version> ?(?:===|==|>=|<=|~=|!=|<|>)[A-Za-z0-9.*!+,<>=~ -]{1,64}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runner:
    """The command line of a package runner."""

    registry: Registry
    flags: frozenset[str] = frozenset()
    """Accepted options without a value: they concern questions, output and caches, which do not exist here."""
    package: frozenset[str] = frozenset()
    """Options that name the package; the first argument then names the program."""
    extra: frozenset[str] = frozenset()
    """Options that name additional packages."""
    reads_to_end: bool = False
    """True if options after the package are the runner's, up to `--`."""


_QUIET = frozenset({"-q", "--quiet", "-s", "--silent"})
_NPX = _Runner(
    registry=Registry.NPM,
    flags=_QUIET | {"-y", "--yes", "--prefer-online", "--prefer-offline", "--ignore-scripts"},
    package=frozenset({"-p", "--package"}),
)
_NPM_EXEC = _Runner(registry=_NPX.registry, flags=_NPX.flags, package=_NPX.package, reads_to_end=True)
_DLX = _Runner(registry=Registry.NPM, flags=_QUIET, package=frozenset({"-p", "--package"}))
_UVX = _Runner(
    registry=Registry.PYPI,
    flags=frozenset({"-q", "--quiet", "-n", "--no-cache", "--refresh", "--isolated", "--no-config", "--no-progress",
                     "-U", "--upgrade", "--no-build"}),
    package=frozenset({"--from"}),
    extra=frozenset({"-w", "--with"}),
)  # fmt: skip
_PIPX = _Runner(
    registry=Registry.PYPI,
    flags=frozenset({"-q", "--quiet", "--no-cache"}),
    package=frozenset({"--spec"}),
    extra=frozenset({"--with"}),
)
_RUNNERS: dict[tuple[str, ...], _Runner] = {
    ("npx",): _NPX, ("npm", "exec"): _NPM_EXEC, ("npm", "x"): _NPM_EXEC, ("bunx",): _DLX, ("bun", "x"): _DLX,
    ("pnpx",): _DLX, ("pnpm", "dlx"): _DLX, ("yarn", "dlx"): _DLX, ("uvx",): _UVX, ("uv", "tool", "run"): _UVX,
    ("pipx", "run"): _PIPX,
}  # fmt: skip
_FETCHES = "it fetches code when it starts, which a confined server without network cannot do"
_REFUSED = {
    "docker": "containers run with the rights of their daemon, which wasmrt cannot confine",
    "podman": "containers need rights that a confined program does not have",
    "nerdctl": "containers run with the rights of their daemon, which wasmrt cannot confine",
    "deno": _FETCHES, "uv": _FETCHES, "npm": _FETCHES, "pnpm": _FETCHES, "yarn": _FETCHES, "pipx": _FETCHES,
}  # fmt: skip
_CONTAINERS = ("docker", "podman", "nerdctl")
_STARTERS = frozenset({
    "env", "sh", "bash", "dash", "zsh", "cmd", "powershell", "pwsh", "sudo", "nice", "timeout", "time", "nohup",
})  # fmt: skip
"""Programs that start the program in their arguments."""


def read_runner(command: Sequence[str]) -> PackageRequest | None:
    """Return the package that a command would fetch and run; None if it starts an installed program.

    Raises:
        ConfigurationError: the runner's options or its package cannot be used, or the program cannot run confined.
    """
    words = (_get_program_name(command[0]), *command[1:])
    for prefix, runner in _RUNNERS.items():
        if words[: len(prefix)] == prefix:
            return _read(" ".join(prefix), runner, list(words[len(prefix) :]))
    _check_other(words)
    return None


def _get_program_name(word: str) -> str:
    name = PurePath(word.replace("\\", "/")).name.lower()
    return re.sub(r"\.(cmd|exe|bat|ps1)$", "", name)


def _read(shown: str, runner: _Runner, rest: list[str]) -> PackageRequest:
    packages: list[str] = []
    extra: list[str] = []
    while rest and rest[0].startswith("-") and rest[0] != "--":
        _read_option(shown, runner, rest, packages, extra)
    ended = rest[:1] == ["--"]
    if ended:
        del rest[0]
    if len(packages) > 1:
        raise ConfigurationError(
            f"{shown}: expected one package, got {len(packages)}", hint="name only the package of the server"
        )
    if not packages and not rest:
        raise ConfigurationError(f"{shown} names no package", hint=f"write the package after it: {shown} PACKAGE")
    program = rest.pop(0) if packages and rest else ""
    requirement = packages[0] if packages else rest.pop(0)
    if runner.reads_to_end and not ended:
        rest = list(_iter_arguments(shown, rest))
    name, requirement = _read_requirement(runner.registry, requirement)
    return PackageRequest(
        registry=runner.registry, name=name, requirement=requirement, program=program, arguments=tuple(rest),
        extra=tuple(_read_requirement(runner.registry, each)[1] for each in extra),
    )  # fmt: skip


def _read_option(shown: str, runner: _Runner, rest: list[str], packages: list[str], extra: list[str]) -> None:
    """Take an option from the front of `rest`. Unknown options are refused: ignoring one could change what runs."""
    option, mark, value = rest.pop(0).partition("=")
    if option in runner.flags and not mark:
        return
    if option not in runner.package | runner.extra:
        known = ", ".join(sorted(runner.flags | runner.package | runner.extra))
        raise ConfigurationError(
            f"wasmrt does not support the option {option!r:.60} of {shown}",
            hint=f"omit it, or install the server yourself and name its program; supported options: {known}",
        )
    if not mark:
        if not rest:
            raise ConfigurationError(f"the option {option} of {shown} needs a value", hint=f"write {option} PACKAGE")
        value = rest.pop(0)
    if option in runner.package:
        packages.append(value)
    else:
        extra.extend(value.split(","))


def _iter_arguments(shown: str, rest: list[str]) -> Iterator[str]:
    """Yield the program's arguments, which follow `--` if they begin with a dash."""
    is_option = True
    for word in rest:
        if is_option and word == "--":
            is_option = False
        elif is_option and word.startswith("-"):
            raise ConfigurationError(
                f"wasmrt does not support the option {word!r:.60} of {shown}",
                hint=f"write -- before the program's own options: {shown} PACKAGE -- {word}",
            )
        else:
            yield word


def _read_requirement(registry: Registry, text: str) -> tuple[str, str]:
    """Return the name and the requirement of a package in the registry.

    SECURITY: nothing but a name and a version reaches the package manager: no path, URL, repository or option.
    """
    if registry is Registry.NPM:
        if (found := _NPM.fullmatch(text)) is not None:
            return found["name"], text
        example, steps = "name, name@1.2.3, @scope/name", "git clone, npm ci, then: -- node /path/to/the/server.js"
    else:
        if (found := _PYPI.fullmatch(text)) is not None:
            at, name = found["at"], found["name"] + (found["extras"] or "")
            version = found["version"] or (f"=={at}" if at and at != "latest" else "")
            return found["name"], name + version.replace(" ", "")
        example, steps = (
            "name, name==1.2.3, name[extra]",
            "install it in a virtual environment, then: -- /path/to/bin/server",
        )
    raise ConfigurationError(
        f"expected a package of {registry.label} such as {example}, got {text!r:.100}",
        hint=f"for a path, a URL or a repository: {steps}",
    )


def _check_other(words: tuple[str, ...]) -> None:
    """Refuse a program that is not a known runner, but fetches code, runs containers or starts a runner.

    Raises:
        ConfigurationError: this is such a program; the hint has the command to use instead.
    """
    program = words[0]
    if program in _STARTERS:
        inner = re.findall(r"[\w./\\-]+", " ".join(words[1:]))
        names = {prefix[0] for prefix in _RUNNERS} | _REFUSED.keys()
        if (found := next((word for word in inner if _get_program_name(word) in names), None)) is not None:
            raise ConfigurationError(
                f"expected {found} as the command, got {program}, which starts {found}",
                hint=f"write the command directly: -- {found} ...; for variables: --env NAME=VALUE",
            )
    if program not in _REFUSED:
        return
    if program in _CONTAINERS:
        hint = (
            "if its documentation has a package, use that: -- npx PACKAGE, or -- uvx PACKAGE; otherwise start the "
            f"container yourself with a published port, such as {program} run -p 127.0.0.1:8000:8000 IMAGE, and add "
            "its URL: wasmrt mcp add NAME http://127.0.0.1:8000/mcp"
        )
    elif program == "uv":
        hint = "run: uv sync --directory DIR, then use: --read DIR -- DIR/.venv/bin/python DIR/server.py"
    elif program == "deno":
        hint = "use the server's npm package: -- npx PACKAGE"
    else:
        hint = "name the program itself: -- node /path/to/the/server.js, or the package: -- npx PACKAGE"
    raise ConfigurationError(f"{' '.join(words[:2])} cannot start a server: {_REFUSED[program]}", hint=hint)
