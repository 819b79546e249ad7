"""Secrets in the desktop's keyring. Keyrings cannot list entries, so an index of names is stored with the values."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from wasmrt.core.errors import SecretBackendError
from wasmrt.egress.secrets._types import Entry, EntryStore

_INDEX = ".names"  # no secret's name starts with a dot


class KeyringSecrets(EntryStore):
    """A store in the keyring `backend`, by default the preferred keyring of this machine.

    Raises:
        SecretBackendError: there is no keyring that protects secrets, or the keyring does not respond.
    """

    backend = "keyring"

    def __init__(self, backend: Any = None, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(now=now)
        self._backend = usable_keyring() if backend is None else backend
        if self._backend is None:
            raise SecretBackendError(
                "this machine has no keyring that protects secrets",
                hint="use the encrypted file: set WASMRT_SECRETS_BACKEND=file",
            )
        self._lock = threading.Lock()

    def _read(self, user: str, name: str) -> Entry | None:
        text = self._call_backend("get_password", user, name)
        return None if text is None else Entry.from_json(_parse_json(text))

    def _write(self, user: str, name: str, entry: Entry) -> None:
        with self._lock:
            # Write the index first: a crash between the two writes leaves a name without a value, which is not listed.
            names = set(self._names(user)) | {name}
            self._call_backend("set_password", user, _INDEX, json.dumps(sorted(names)))
            self._call_backend("set_password", user, name, json.dumps(entry.as_json()))

    def _delete(self, user: str, name: str) -> bool:
        with self._lock:
            if self._call_backend("get_password", user, name) is None:
                return False
            self._call_backend("delete_password", user, name)
            names = set(self._names(user)) - {name}
            self._call_backend("set_password", user, _INDEX, json.dumps(sorted(names)))
            return True

    def _names(self, user: str) -> Iterable[str]:
        text = self._call_backend("get_password", user, _INDEX)
        names = [] if text is None else _parse_json(text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise SecretBackendError("the keyring's index of secrets is damaged")
        return names

    def _call_backend(self, method: str, user: str, *args: str) -> str | None:
        with contextlib.suppress(Exception):
            answer: str | None = getattr(self._backend, method)(f"wasmrt/{user}", *args)
            return answer
        # SECURITY: raised outside the handler, so that its context is not the backend's error, which can contain the
        # value.
        raise SecretBackendError("the keyring does not respond", hint="unlock it and try again")


def usable_keyring() -> Any:
    """Return the preferred keyring backend of this machine, or None if no backend protects secrets."""
    import keyring
    from keyring.backends.chainer import ChainerBackend

    backend = keyring.get_keyring()
    # SECURITY: if there are several backends, keyring returns a chain of them; check each member, not the chain.
    several = backend.backends if isinstance(backend, ChainerBackend) else (backend,)
    return next((each for each in several if _protects_secrets(each)), None)


def _protects_secrets(backend: Any) -> bool:
    from keyring.backends import fail, null

    if isinstance(backend, (fail.Keyring, null.Keyring)) or backend.priority <= 0:
        return False
    # SECURITY: keyrings.alt stores plain text in a file; wasmrt's own encrypted file is safer.
    return not type(backend).__module__.startswith("keyrings.alt")


def _parse_json(text: str) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(text)
    # SECURITY: raised outside the handler, because a JSON error contains the text.
    raise SecretBackendError("a stored secret has a format that this version of wasmrt does not know")
