"""Source rules that no linter checks: docstrings, sizes and the place of imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "wasmrt"
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

# Our own modules that a function imports: a whole command, or most runtimes, do without them.
LATE_IMPORTS = {
    "agent/builtin/memory/_store.py": "a memory in files needs no psycopg, which is an extra",
    "catalog/_catalog.py": "a catalog in a folder needs no psycopg, which is an extra",
    "catalog/_rows.py": "a list of tools needs no capabilities",
    "cli/use/run.py": "a component needs no registry",
    "cli/use/list.py": "most machines have no configuration file and use no MCP server",
    "cli/use/component.py": "a call that the default policy allows needs no registry",
    "cli/use/registered.py": "most machines use no MCP server, and the SDK takes a third of a second",
    "agent/registry/_pipeline.py": "few programs have code mode on",
    "agent/registry/_registry.py": "few programs have code mode on",
    "cli/author/pack.py": "only a folder of sources needs the package that builds tools",
    "sandbox/isolation/pool/home.py": "a runtime whose components are all compiled starts no compile worker",
    "runtime/call/_target.py": "the params of a guest in a worker are checked in the worker",
    "cli/grant/approvals.py": "most of its commands serve no page, and few machines have programs that wait",
    "cli/shared/calls.py": "a tool that may not write files leaves no journal",
    "cli/shared/registries.py": "a file or package on this machine needs no network modules",
    "cli/shared/consent.py": "without a configuration file, the network modules are not needed",
    "__main__.py": "what guests live in starts before the command is imported, which most do not need",
    "runtime/stores.py": "without a configuration file, its reader is not needed",
    "cli/shared/runtime.py": "a tool without a grant needs no secrets and no network",
    "cli/shared/tools.py": "an installed or bundled tool without a grant needs no file, and asks no search provider",
    "cli/shared/registry.py": "most machines use no MCP server, and the SDK takes a third of a second",
    "cli/grant/install.py": "without a key, ciphers are not needed, and without a file or URL, no network modules",
    "cli/grant/programs.py": "only a program for WASI needs the package that builds tools",
    "cli/grant/caps.py": "a check of a file alone needs no engine",
    "cli/operate/doctor.py": "each check imports what it checks, so that a part that does not load is a failed check",
    "egress/gateway/_gateway.py": "h11 and ssl come with the first request",
    "sandbox/guest/component.py": "a component that imports nothing of WASI needs none of its interfaces",
    "catalog/bundled.py": "echo, time and json have no capability file",
    "catalog/granted.py": "most tools ask for nothing",
    "cli/serve/serve.py": "a server over stdio needs nothing of HTTP",
    "cli/serve/http.py": "the library that reads access tokens is an extra",
    "cli/serve/registry.py": "a client that opens no address needs none of the pages",
    "cli/serve/session.py": "a client has its first answer before the tools are loaded",
    "catalog/policy.py": "only rules with keys need ciphers",
    "catalog/signing/_verify.py": "most tools have no signature, and ciphers take time to load",
    "catalog/find.py": "only a tool whose capability file has a schema of its own needs the validator of schemas",
    "egress/rates/_limiter.py": "redis is an extra",
    "runtime/runtime.py": "a runtime without grants needs neither secrets nor a network",
    "runtime/parts.py": "loading the engine takes half of the start of a short program, which may not need it",
    "runtime/call/_tasks.py": "asyncio takes a third of the start of a program that does not await",
    "runtime/backends.py": "a runtime without secrets renews none",
    "sandbox/guest/worlds/_exports.py": "a component of a tool world needs neither JSON for every WIT type nor WASI",
    "runtime/config_values.py": "a file without a section [memory] needs nothing of it, and no database",
    "runtime/config_database.py": "psycopg is an extra, and most installations use SQLite files",
    "runtime/config_file.py": "keyrings and ciphers are for commands that use a secret",
    "cli/shared/secrets.py": "a command that only keeps a secret uses no network",
    "agent/builtin/extensions/sources.py": "most agents install no tool, and archives take 2 MB to be read",
    "agent/builtin/extensions/tools.py": "most agents search no list, and archives take 2 MB to be read",
    "agent/builtin/extensions/missing.py": "a tool without a login needs nothing of OAuth",
    "cli/shared/options.py": "only a shell that completes a name reads the catalog",
    "runtime/config.py": "a program that sets everything itself reads no file, and opens no store of secrets",
    "egress/outlet.py": "h11 comes with the first program that has an outlet",
    "sandbox/isolation/confine/_sealing.py": "sockets take time to load, and few programs have an outlet",
    "agent/builtin/shell/_session.py": "a shell without a session reads no list of variables",
    "agent/loading.py": "most agents have no desktop and no jobs",
    "cli/use/host_tool.py": "only a tool for a desktop needs what reaches one",
    "agent/builtin/desktop/_tools.py": "only the browser needs the way out",
    "agent/builtin/shell/_backend.py": "a shell that runs nothing reads no list",
    "agent/builtin/shell/_tool.py": "the grammar is an extra, and a shell without it refuses every command",
    "runtime/prepared.py": "an agent needs the dialects of providers, a command does not",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of the package by path: not at import, since each worker of a test run imports this."""
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}


def functions(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield docstrings, also of attributes and constants, with their lines."""
    for node in ast.walk(tree):
        for child in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            match child:
                case ast.Expr(ast.Constant(str(text))):
                    yield child.lineno, text


def late_imports(tree: ast.Module) -> set[str]:
    """Yield the wasmrt modules that are imported inside functions."""
    found = set()
    for function in functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.ImportFrom):
                found.add(node.module or "")
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
    return {name for name in found if name.partition(".")[0] == "wasmrt"}


@pytest.mark.ci("slow")
def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    question = re.compile(r"\s*(What|Whether|Where|How)\b")
    found = [
        f"{name}:{line}: {text[:50]}"
        for name, tree in sorted(modules().items())
        for line, text in texts(tree)
        if question.match(text)
    ]
    assert found == []


@pytest.mark.ci("slow")
def test_functions_fit_a_screen() -> None:
    sizes = {
        f"{name}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for name, tree in modules().items()
        for function in functions(tree)
    }
    assert {name: lines for name, lines in sizes.items() if lines > MAX_FUNCTION_LINES} == {}


@pytest.mark.ci("slow")
def test_files_hold_one_idea() -> None:
    sizes = {name: len((PACKAGE / name).read_text().splitlines()) for name in modules()}
    assert {name for name, lines in sizes.items() if lines > MAX_FILE_LINES} == set()


@pytest.mark.ci("slow")
def test_wasmrt_modules_are_imported_at_the_top_of_a_file() -> None:
    late = {name: sorted(found) for name, tree in modules().items() if (found := late_imports(tree))}
    assert {name: found for name, found in late.items() if name not in LATE_IMPORTS} == {}
    assert LATE_IMPORTS.keys() <= late.keys(), "an exception that is no longer needed"
