"""Commands of package runners: which package they name, and which commands are refused with the command to use."""

from __future__ import annotations

import shlex

import pytest

from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.mcp.packages import Registry, read_runner

NPM, PYPI = Registry.NPM, Registry.PYPI


@pytest.mark.parametrize(("line", "registry", "requirement", "program", "arguments"), [
    ("npx -y pkg", NPM, "pkg", "", ()),
    ("npx pkg@1.2.3 --port 3 /work", NPM, "pkg@1.2.3", "", ("--port", "3", "/work")),
    ("npx -y @scope/pkg@latest -- x", NPM, "@scope/pkg@latest", "", ("--", "x")),
    ("npx --yes --package=@scope/pkg cmd a", NPM, "@scope/pkg", "cmd", ("a",)),
    ("npx -p pkg -- cmd", NPM, "pkg", "cmd", ()),
    ("/usr/local/bin/npx -y pkg", NPM, "pkg", "", ()),
    (r"'C:\nodejs\npx.cmd' pkg", NPM, "pkg", "", ()),
    ("npm exec -y pkg -- --flag", NPM, "pkg", "", ("--flag",)),
    ("npm x --package pkg -- cmd -v", NPM, "pkg", "cmd", ("-v",)),
    ("bunx pkg@^1.2", NPM, "pkg@^1.2", "", ()),
    ("bun x pkg a", NPM, "pkg", "", ("a",)),
    ("pnpm dlx pkg", NPM, "pkg", "", ()),
    ("pnpx pkg", NPM, "pkg", "", ()),
    ("yarn dlx -q pkg", NPM, "pkg", "", ()),
    ("uvx pkg", PYPI, "pkg", "", ()),
    ("uvx pkg@1.2.3 --local-timezone UTC", PYPI, "pkg==1.2.3", "", ("--local-timezone", "UTC")),
    ("uvx pkg@latest", PYPI, "pkg", "", ()),
    ("uvx 'pkg[cli]>=1.2,<2'", PYPI, "pkg[cli]>=1.2,<2", "", ()),
    ("uvx --from pkg==1.0 cmd a -b", PYPI, "pkg==1.0", "cmd", ("a", "-b")),
    ("uv tool run --from=pkg cmd", PYPI, "pkg", "cmd", ()),
    ("pipx run pkg a", PYPI, "pkg", "", ("a",)),
    ("pipx run --spec pkg==2 cmd", PYPI, "pkg==2", "cmd", ()),
])  # fmt: skip
def test_commands_of_package_runners_name_a_package_a_program_and_arguments(
    line: str, registry: Registry, requirement: str, program: str, arguments: tuple[str, ...]
) -> None:
    request = read_runner(shlex.split(line))
    assert request is not None
    found = (request.registry, request.requirement, request.program, request.arguments)
    assert found == (registry, requirement, program, arguments)


def test_additional_packages_are_requirements() -> None:
    request = read_runner(["uvx", "--with", "a,b==1", "--with=c", "pkg"])
    assert request is not None and request.extra == ("a", "b==1", "c")


@pytest.mark.parametrize(
    "line", ["python -m server", "python3.12 server.py", "node server.js", "mcp-server-time", "bash start.sh"]
)
def test_installed_programs_are_not_package_runners(line: str) -> None:
    assert read_runner(shlex.split(line)) is None


@pytest.mark.parametrize(("line", "said", "step"), [
    ("npx --registry=https://evil.test pkg", "'--registry'", "supported options"),
    ("npx -c 'pkg | sh'", "'-c'", "supported options"),
    ("npx --yes=false pkg", "'--yes'", "supported options"),
    ("uvx --python 3.12 pkg", "'--python'", "supported options"),
    ("uvx --index-url https://evil.test/simple pkg", "'--index-url'", "supported options"),
    ("pipx run --pip-args=-i pkg", "'--pip-args'", "supported options"),
    ("npm exec pkg --registry https://evil.test", "'--registry'", "npm exec PACKAGE -- --registry"),
    ("npx", "names no package", "npx PACKAGE"),
    ("npx -y", "names no package", "npx PACKAGE"),
    ("npx -p", "needs a value", "-p PACKAGE"),
    ("npx -p a -p b cmd", "expected one package, got 2", "only the package of the server"),
    ("npx github:user/repo", "got 'github:user/repo'", "npm ci"),
    ("npx ./server", "got './server'", "npm ci"),
    ("npx https://a.test/pkg.tgz", "got 'https://a.test/pkg.tgz'", "npm ci"),
    ("npx pkg@file:/etc", "got 'pkg@file:/etc'", "npm ci"),
    ("npx -- --global", "got '--global'", "npm ci"),
    ("uvx git+https://a.test/repo", "got 'git+https://a.test/repo'", "virtual environment"),
    ("uvx --from . cmd", "got '.'", "virtual environment"),
    ("uvx --with /etc pkg", "got '/etc'", "virtual environment"),
    ("uvx -- -r/etc/passwd", "got '-r/etc/passwd'", "virtual environment"),
    ("docker run -i --rm mcp/time", "rights of their daemon", "docker run -p 127.0.0.1:8000:8000 IMAGE"),
    ("podman run image", "cannot start a server", "wasmrt mcp add NAME http://127.0.0.1:8000/mcp"),
    ("uv --directory /srv run server.py", "fetches code", "DIR/.venv/bin/python"),
    ("uv run server.py", "fetches code", "DIR/.venv/bin/python"),
    ("npm start", "fetches code", "node /path/to/the/server.js"),
    ("deno run npm:pkg", "fetches code", "npx PACKAGE"),
    ("env KEY=1 npx pkg", "got env, which starts npx", "-- npx"),
    ("bash -c 'exec /usr/bin/uvx pkg'", "got bash, which starts /usr/bin/uvx", "-- /usr/bin/uvx"),
    ("cmd /c npx pkg", "got cmd, which starts npx", "-- npx"),
])  # fmt: skip
def test_commands_that_cannot_work_are_refused_with_the_command_to_use(line: str, said: str, step: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_runner(shlex.split(line))
    assert said in refused.value.message
    assert step in (refused.value.hint or "")
