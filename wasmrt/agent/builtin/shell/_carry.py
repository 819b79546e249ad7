"""State that a session carries from one command to the next: written in front of it, and told at its end.

The telling is done by the command's own shell, which the command can make say anything: what it says is data, held to
names, bounds and lists here before the next command begins with it.
"""

from __future__ import annotations

import os
import re
from shlex import quote

from wasmrt.agent.builtin.shell._lists import may_be_kept
from wasmrt.agent.builtin.shell._start import Start
from wasmrt.core.errors import InvalidParametersError
from wasmrt.core.limits import MAX_SHELL_SESSION_BYTES, MAX_SHELL_SESSION_VARIABLES

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.+-]+")
_SUBSTITUTIONS = ("$(", "`", "<(", ">(", "${")
_TELL = """trap '{ set +xveufT; trap - DEBUG ERR RETURN; } 2>/dev/null; {
IFS="
"
builtin printf "%s\\0" "$PWD"
for __wasmrt_name in $(builtin compgen -v); do
    builtin printf "%s\\0%s\\0%s\\0" "$__wasmrt_name" "${!__wasmrt_name@a}" "${!__wasmrt_name}"
done; } >"REPORT" 2>/dev/null' EXIT"""


def script_of(text: str, start: Start, report: str) -> str:
    """Return a command line with what it begins with in front, that tells at its end what is to be kept.

    `report` is the path of the file that it is told in.
    """
    assert _PLAIN_PATH.fullmatch(report)
    lines = [_TELL.replace("REPORT", report), *_setting(start)]
    return "\n".join((*lines, text))


def _setting(start: Start) -> list[str]:
    """SECURITY: values of a command are data here: each is quoted whole."""
    lines = [f"{'export ' if name in start.exported else ''}{name}={quote(value)}" for name, value in start.variables]
    if start.folder:
        lines += [f"cd -- {quote(start.folder)}", "unset OLDPWD"]
    return lines


def read_report(data: bytes, before: Start, *, workspace: str, home: str) -> Start:
    """Return what a command told at its end; `before` where it told nothing, as after `exec`.

    A directory in `home` is not kept: it goes with the command.

    Raises:
        InvalidParametersError: it is more than a session keeps.
    """
    parts = data.split(b"\0")
    if not data or len(parts) % 3 != 2 or parts[-1]:  # cut, or nothing of ours
        return before
    variables, exported = {}, set()
    for name, attributes, value in zip(*(map(_text, parts[at:-1:3]) for at in (1, 2, 3)), strict=True):
        if _is_kept(name, attributes, value):
            variables[name] = value
            if "x" in attributes:
                exported.add(name)
    start = Start(_folder(_text(parts[0]), workspace, home), tuple(sorted(variables.items())), frozenset(exported))
    written = len("\n".join(_setting(start)).encode("utf-8", "surrogatepass"))
    if written > MAX_SHELL_SESSION_BYTES or len(variables) > MAX_SHELL_SESSION_VARIABLES:
        raise InvalidParametersError(
            f"the session keeps {MAX_SHELL_SESSION_VARIABLES} variables of {MAX_SHELL_SESSION_BYTES // 1024} KiB"
            " together, and stays as it was before this command",
            hint="unset what is no longer needed, or keep it in a file",
        )
    return start


def _is_kept(name: str, attributes: str, value: str) -> bool:
    """SECURITY: plain texts alone. Arithmetic and prompts would carry out a substitution in a value."""
    return (
        _NAME.fullmatch(name) is not None
        and attributes in ("", "x")
        and may_be_kept(name)
        and "\ufffd" not in value
        and not any(mark in value for mark in _SUBSTITUTIONS)
    )


def _folder(told: str, workspace: str, home: str) -> str:
    """Return a directory from the workspace, or from the root."""
    path = os.path.normpath(told) if told.startswith("/") and "\ufffd" not in told else workspace
    if path in (workspace, home) or path.startswith(f"{home}/") or any(each < " " for each in path):
        return ""
    return path.removeprefix(f"{workspace}/")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
