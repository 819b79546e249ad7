"""Secrets that a command of the operator prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from wasmrt.core.errors import ConfigurationError, SecretBackendError, SecretError, SecretNotFoundError
from wasmrt.core.limits import MAX_SECRET_BYTES
from wasmrt.egress.secrets import CommandSecrets, Secret, name_backend, open_store
from wasmrt.runtime.config_file import read_file_settings

VALUE = "a value" + " of the store"


def python(code: str, *arguments: str) -> Sequence[str]:
    """Return a command that runs Python code; without arguments, the name of the secret is its argument."""
    return [sys.executable, "-S", "-c", code, *(arguments or ("{name}",))]


def printing(text: str) -> Sequence[str]:
    return python(f"import sys; sys.stdout.write({text!r})")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_value_is_the_output_without_its_line_end(end: str) -> None:
    assert CommandSecrets(printing(VALUE + end)).get("local", "token").reveal() == VALUE


def test_the_name_and_the_user_are_arguments_and_no_shell_reads_them() -> None:
    show = "import json, sys; print(json.dumps(sys.argv[1:]))"
    store = CommandSecrets(python(show, "vault/{user}/{name}", "$HOME; exit"))
    assert json.loads(store.get("ann {name} $(id)", "TOKEN").reveal()) == [
        "vault/ann {name} $(id)/token",
        "$HOME; exit",
    ]


def test_without_a_place_for_the_user_only_the_local_user_has_secrets() -> None:
    store = CommandSecrets(printing(VALUE))
    assert store.exists("local", "token") and not store.exists("eve", "token")
    with pytest.raises(SecretNotFoundError):
        store.get("eve", "token")


def test_a_user_cannot_become_an_option_of_the_command() -> None:
    store = CommandSecrets(python(f"print({VALUE!r})", "{user}", "{name}"))
    assert store.exists("ann", "token") and not store.exists("--help", "token")


def test_no_output_means_that_the_secret_is_not_set() -> None:
    store = CommandSecrets(python("import sys; sys.argv[1] == 'token' and print('a value')"))
    assert store.exists("local", "token") and not store.exists("local", "other")


def test_a_login_is_never_read_from_the_command() -> None:
    assert not CommandSecrets(printing(VALUE)).exists("local", "token~oauth")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (python(f"import sys; print({VALUE!r}); print({VALUE!r}, file=sys.stderr); sys.exit(3)"), "exit status 3"),
        (python(f"print({VALUE!r} * {MAX_SECRET_BYTES})"), "more than 65,536 bytes"),
        (python("import sys; sys.stdout.buffer.write(b'\\xff' + b'a value')"), "UTF-8"),
        (["/nonexistent/" + "program", "{name}"], "cannot be started"),
    ],
)
def test_a_failed_command_is_an_error_without_its_output(
    command: Sequence[str], said: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SecretBackendError, match=said) as caught:
        CommandSecrets(command).get("local", "token")
    assert (
        caught.value.hint and caught.value.__cause__ is None and not isinstance(caught.value.__context__, UnicodeError)
    )
    everything = f"{caught.value}{caught.value.hint}{capfd.readouterr()}{caplog.text}"
    assert VALUE not in everything and "nonexistent" not in everything


@pytest.mark.parametrize("closed", [False, True])
def test_a_command_that_does_not_end_is_killed(tmp_path: Path, closed: bool) -> None:
    close = "os.close(1); " if closed else ""
    started = tmp_path / "pid"
    code = f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); {close}time.sleep(600)"
    with pytest.raises(SecretBackendError, match="did not end within"):
        CommandSecrets(python(code), timeout_seconds=0.5).get("local", "token")
    assert not started.exists() or not Path(f"/proc/{started.read_text()}").exists()


def test_secrets_of_a_command_cannot_be_changed() -> None:
    store = CommandSecrets(printing(VALUE))
    with pytest.raises(SecretBackendError, match="read-only"):
        store.set("local", "token", Secret(VALUE))
    with pytest.raises(SecretBackendError, match="read-only"):
        store.remove("local", "token")
    with pytest.raises(SecretNotFoundError) as caught:
        CommandSecrets(printing("")).get("local", "token")
    assert "secrets.command" in (caught.value.hint or "")
    assert store.list("local") == ()


@pytest.mark.parametrize("command", [[], ["op"], ["{name}"], ["op", "read"]])
def test_a_command_without_a_place_for_the_name_is_refused(command: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="needs a command with") as caught:
        CommandSecrets(command)
    assert "command = [" in str(caught.value.hint)


def test_the_file_sets_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    monkeypatch.delenv("WASMRT_SECRETS_BACKEND", raising=False)
    file = tmp_path / "config.toml"
    file.write_text(f'[secrets]\nbackend = "command"\ncommand = {json.dumps(printing(VALUE))}\n')
    store = read_file_settings(file).open_secrets()
    assert name_backend(store) == "command" and store.get("local", "token").reveal() == VALUE
    file.write_text('[secrets]\ncommand = ["op", "{name}"]\n')
    with pytest.raises(ConfigurationError, match="only used by the backend 'command'"):
        read_file_settings(file).open_secrets()
    with pytest.raises((ConfigurationError, SecretError), match="needs a command with"):
        open_store(tmp_path, backend="command")
