"""`wasmrt secret`: manage credentials by user. Values are typed or piped in, never passed as arguments or shown."""

from __future__ import annotations

import sys
import time

import click

from wasmrt.cli.shared.groups import LazyGroup
from wasmrt.cli.shared.options import json_option, user_option
from wasmrt.cli.shared.output import is_interactive, print_message, show_columns, show_json
from wasmrt.cli.shared.secrets import (
    check_all,
    describe_backend,
    describe_no_secrets,
    new_file_warning,
    open_secrets,
    print_warnings,
)
from wasmrt.core.errors import ConfigurationError, SecretError
from wasmrt.core.limits import MAX_ENV_FILE_BYTES, MAX_SECRET_BYTES
from wasmrt.egress.secrets import (
    Secret,
    SecretInfo,
    name_backend,
    normalize_secret_name,
    parse_env_file,
    replace_secret,
)

_DAY = 86400.0


@click.group("secret", cls=LazyGroup, modules={"test": "wasmrt.cli.operate.secret_test"})
def secret() -> None:
    """Manage the credentials that tools use but never see.

    \b
    Examples:
      wasmrt secret set example_token
      wasmrt secret list
      wasmrt secret test example_token --tool search
    """


@secret.command("set")
@click.argument("name")
@user_option
@click.option(
    "--expires-in-days", type=click.FloatRange(min=0, min_open=True, max=36500), help="Days until it expires."
)
@json_option
def set_secret(name: str, user: str, expires_in_days: float | None, as_json: bool) -> None:
    """Set a secret, from a prompt without echo or from standard input.

    A value that no request can carry is rejected. If only some parts of a request can carry it, a warning names them.

    \b
    Examples:
      wasmrt secret set example_token
      pass show example | wasmrt secret set example_token --json
    """
    name = normalize_secret_name(name)
    text = _prompt_for(name) if is_interactive() else _read_stdin()
    if not text:
        hint = f"enter it on a terminal, or pipe it in: pass show example | wasmrt secret set {name}"
        raise SecretError("no value was given", code="secret-value", hint=hint)
    value = Secret(text)
    warnings = check_all({name: value})
    expires_at = None if expires_in_days is None else time.time() + expires_in_days * _DAY
    store = open_secrets()
    note = new_file_warning(store)
    replace_secret(store, user, name, value, expires_at=expires_at)
    warnings += [note] if note else []
    print_warnings(warnings)
    if as_json:
        show_json({"set": [name], "user": user, "expires_at": expires_at, "warnings": warnings})
    else:
        print_message(f"{name} is set for {user}")


def _prompt_for(name: str) -> str:
    value: str = click.prompt(f"value of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return value


def _read_stdin() -> str:
    text = _decode(sys.stdin.buffer.read(MAX_SECRET_BYTES + 3), "a secret", "secret-value")
    return text.removesuffix("\n").removesuffix("\r")


def _decode(data: bytes, what: str, code: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if not text and data:  # raised outside the handler, because a decoding error contains the undecodable value
        raise SecretError(f"{what} must be valid UTF-8 text", code=code)
    return text


@secret.command("list")
@user_option
@json_option
def list_secrets(user: str, as_json: bool) -> None:
    """List the names and ages of a user's secrets, and show the backend. Values are never shown.

    \b
    Examples:
      wasmrt secret list
      wasmrt secret list --user alice --json
    """
    store = open_secrets()
    infos = store.list(user)
    if as_json:
        backend = {"backend": name_backend(store)}
        show_json([{slot: getattr(info, slot) for slot in info.__slots__} | backend for info in infos])
        return
    print_message(f"backend: {describe_backend(store)}")
    if not infos:
        print_message(describe_no_secrets(store, user))
        return
    now = time.time()
    show_columns(
        ("NAME", "AGE", "EXPIRES"), [(info.name, _format_age(info, now), _format_expiry(info, now)) for info in infos]
    )


def _format_age(info: SecretInfo, now: float) -> str:
    return _format_span(max(0.0, now - info.created_at))


def _format_expiry(info: SecretInfo, now: float) -> str:
    if info.expires_at is None:
        return "never"
    left = info.expires_at - now
    return f"in {_format_span(left)}" if left > 0 else "expired"


def _format_span(seconds: float) -> str:
    for size, unit in ((_DAY, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


@secret.command("remove")
@click.argument("name")
@user_option
@json_option
def remove_secret(name: str, user: str, as_json: bool) -> None:
    """Delete a secret from the store.

    \b
    Examples:
      wasmrt secret remove example_token
      wasmrt secret remove example_token --user alice --json
    """
    name = normalize_secret_name(name)
    open_secrets().remove(user, name)
    show_json({"removed": name, "user": user}) if as_json else print_message(f"removed {name} for {user}")


@secret.command("import")
@click.argument("file", type=click.File("rb"), metavar="FILE | -")
@user_option
@click.option("--only", multiple=True, metavar="NAME", help="Only import this one; may be repeated.")
@json_option
def import_secrets(file: click.File, user: str, only: tuple[str, ...], as_json: bool) -> None:
    """Set the secrets of a .env file, under lower-case names. If one of them is not usable, none is set.

    \b
    Examples:
      wasmrt secret import .env --only API_TOKEN
      wasmrt secret import - --json < .env
    """
    data = file.read(MAX_ENV_FILE_BYTES + 1)  # type: ignore[attr-defined]
    found = dict(parse_env_file(_decode(data, "a .env file", "env-file")))
    wanted = {normalize_secret_name(name) for name in only} or found.keys()
    missing = sorted(wanted - found.keys())
    if missing:
        raise ConfigurationError(f"the file does not set {missing[0]}", hint="check the names after --only")
    names = sorted(wanted)
    warnings = check_all({name: found[name] for name in names})
    store = open_secrets()
    note = new_file_warning(store) if names else None
    replaced = sorted(wanted & {info.name for info in store.list(user)})
    for name in names:
        replace_secret(store, user, name, found[name])
    warnings += [note] if note else []
    print_warnings(warnings)
    if as_json:
        show_json({"set": names, "replaced": replaced, "user": user, "warnings": warnings})
        return
    print_message(f"set for {user}: {', '.join(names) or 'nothing, because the file sets no variables'}")
    if replaced:
        print_message(f"of these, replaced: {', '.join(replaced)}")
