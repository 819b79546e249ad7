"""Read secrets from the output of a program of the operator, such as the client of a password manager."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

from wasmrt.core.errors import ConfigurationError, SecretBackendError
from wasmrt.core.limits import MAX_SECRET_BYTES, SECRET_COMMAND_SECONDS
from wasmrt.egress.secrets._types import DEFAULT_USER, OAUTH_SUFFIX, Entry, EntryStore, Secret

_NAME, _USER = "{name}", "{user}"
_MAX_OUTPUT_BYTES = MAX_SECRET_BYTES + 2
"""Maximum size of the output: a value and the end of its line."""


class CommandSecrets(EntryStore):
    """A read-only store: a command prints the value of one secret. Without output, the secret is not set.

    The output may end with a line end.

    The command is a list of arguments. `{name}` is replaced by the name of the secret and `{user}` by the user. If no
    argument contains `{user}`, only the user `local` has secrets. The command runs for every use of a secret.

    SECURITY: no shell runs. Output and errors of the command are neither logged nor part of a message.

    Raises:
        ConfigurationError: the command is empty, or no argument after the program contains `{name}`.
    """

    backend = "command"
    read_only = "a command"
    lists_names = False

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float = SECRET_COMMAND_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(now=now)
        if not command or not any(_NAME in argument for argument in command[1:]):
            raise ConfigurationError(
                "the secrets backend 'command' needs a command with {name} in an argument",
                hint='for example, in [secrets]: command = ["op", "read", "op://agents/{name}/credential"]',
            )
        self._command = tuple(command)
        self._timeout_seconds = timeout_seconds

    def _read(self, user: str, name: str) -> Entry | None:
        if name.endswith(OAUTH_SUFFIX) or not self._has_secrets(user):
            return None
        program, *rest = self._command
        command = [program, *(_fill(argument, user, name) for argument in rest)]
        hint = "check the program: wasmrt config get secrets.command"
        output = read_command_output(command, hint=hint, timeout_seconds=self._timeout_seconds)
        value = output.removesuffix("\n").removesuffix("\r")
        return Entry(Secret(value), self._now()) if value else None

    def _has_secrets(self, user: str) -> bool:
        # SECURITY: without {user}, the command would return one user's secret to all users. A user whose name begins
        # with a dash could become an option of the command.
        if not any(_USER in argument for argument in self._command):
            return user == DEFAULT_USER
        return not user.startswith("-")

    def _names(self, user: str) -> Iterable[str]:
        return ()

    def hint_to_set(self, user: str, name: str) -> str:
        """Return the place where a user sets a secret."""
        return f"store {name} where the command in secrets.command reads it (wasmrt config get secrets.command)"

    def _delete(self, user: str, name: str) -> NoReturn:
        raise SecretBackendError(
            "secrets from a command are read-only", hint="delete the secret where the command reads it"
        )


def read_command_output(
    command: Sequence[str],
    *,
    hint: str,
    timeout_seconds: float,
    stdin: bytes = b"",
    label: str = "the command for secrets",
) -> str:
    """Run a command of the operator without a shell; return its output, at most as long as a secret.

    `hint` says how to check the program, `stdin` is a short input, and `label` names the command in errors.

    Raises:
        SecretBackendError: the command cannot be started, fails, or does not end in time.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - no shell is used
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        reason = f"{label} cannot be started: {error.strerror}"
        raise SecretBackendError(reason, hint=hint) from None
    assert process.stdin is not None
    try:
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(stdin)
        output = _read_output(process, time.monotonic() + timeout_seconds)
        if output is not None and len(output) > _MAX_OUTPUT_BYTES:
            raise _command_error(label, f"printed more than {MAX_SECRET_BYTES:,} bytes")
        status = None if output is None else process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        output = None
    finally:
        _end(process)
    if output is None:
        raise _command_error(label, f"did not end within {timeout_seconds:g} seconds")
    if status != 0:
        raise _command_error(label, f"failed with exit status {status}")
    text = output.decode(errors="replace")  # SECURITY: a decoding error would contain the value
    if text.encode() != output:
        raise _command_error(label, "printed something other than UTF-8 text")
    return text


def _fill(argument: str, user: str, name: str) -> str:
    """Replace all placeholders of an argument in one step, so that a placeholder in a user's name is not replaced."""
    return name.join(part.replace(_USER, user) for part in argument.split(_NAME))


def _read_output(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """Return a program's output, at most one byte more than allowed. Return None if it does not end in time."""
    assert process.stdout is not None
    found = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(found) <= _MAX_OUTPUT_BYTES:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                return None
            piece = os.read(process.stdout.fileno(), _MAX_OUTPUT_BYTES + 1 - len(found))
            if not piece:
                break
            found += piece
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """If a program still runs, end it and the programs that it started."""
    if process.returncode is None:  # not reaped yet, so no other group can have this ID
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _command_error(label: str, how: str) -> SecretBackendError:
    return SecretBackendError(f"{label} {how}", hint="run the command yourself to see its error")
