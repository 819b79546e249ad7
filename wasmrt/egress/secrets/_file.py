"""Secrets in one AES-256-GCM file, written atomically.

    "WASMRT-SECRETS-1\\n" · a line of JSON (source of the key) · 12 bytes of nonce · ciphertext and tag

The header (the first two parts) is authenticated as additional data, so it cannot be replaced. The key is derived from
a passphrase with scrypt (RFC 7914), or comes from a key file that only its owner can read.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import secrets as tokens
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasmrt.core.errors import SecretBackendError
from wasmrt.core.files import Unfit, UnfitFileError, create_file, read_file, replace_file
from wasmrt.core.limits import MAX_SECRETS_FILE_BYTES
from wasmrt.egress.secrets._types import Entry, EntryStore

_MAGIC = b"WASMRT-SECRETS-1\n"
_NONCE_BYTES, _TAG_BYTES = 12, 16
_KEY_BYTES = 32
# OWASP's recommendation for scrypt: 128 MiB and about a third of a second per guess.
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**17, 8, 1
_SALT_BYTES = 16

_Users = dict[str, dict[str, Entry]]


@dataclass(frozen=True, slots=True, repr=False)
class FileKey:
    """The source of a secrets file's key: either a passphrase, or a key file with mode 0600.

    Raises:
        SecretBackendError: both or neither of `passphrase` and `path` are given, or the passphrase is empty.
    """

    passphrase: str | None = None
    path: Path | None = None

    def __post_init__(self) -> None:
        if (self.passphrase is None) == (self.path is None):
            raise SecretBackendError("a secrets file needs either a passphrase or a key file")
        if self.passphrase == "":
            raise SecretBackendError("the passphrase of a secrets file must not be empty")


class FileSecrets(EntryStore):
    """A store in the encrypted file `path`, safe for concurrent threads and processes.

    The attribute `path` of a raised error is the file with the problem: the secrets file or its key file.

    Raises:
        SecretBackendError: the file or key is unreadable, is not a secrets file, or was changed by another program.
    """

    backend = "file"

    def __init__(self, path: Path, key: FileKey, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(now=now)
        self._path = path
        self._key = key
        self._lock = threading.Lock()
        self._derived: tuple[bytes, bytes] | None = None

    @property
    def path(self) -> Path:
        """The encrypted file. It is created when the first secret is set."""
        return self._path

    @property
    def key_path(self) -> Path | None:
        """The key file, or None if the key comes from a passphrase."""
        return self._key.path

    @property
    def is_new(self) -> bool:
        """True if the encrypted file does not exist yet."""
        return _read_bounded(self._path) is None

    def _read(self, user: str, name: str) -> Entry | None:
        return self._load()[0].get(user, {}).get(name)

    def _names(self, user: str) -> Iterable[str]:
        return self._load()[0].get(user, {})

    def _write(self, user: str, name: str, entry: Entry) -> None:
        with self._lock_users() as users:
            users.setdefault(user, {})[name] = entry

    def _delete(self, user: str, name: str) -> bool:
        with self._lock_users() as users:
            return users.get(user, {}).pop(name, None) is not None

    def _load(self) -> tuple[_Users, bytes]:
        with self._lock, _set_error_path(self._path):
            return self._decrypt()

    @contextlib.contextmanager
    def _lock_users(self) -> Iterator[_Users]:
        """Read the file, let the block change the secrets, and write the file. Other threads and processes wait."""
        with (
            self._lock,
            _set_error_path(self._path),
            _convert_os_errors("the secrets file cannot be written", self._path),
        ):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                users, salt = self._decrypt()
                yield users
                replace_file(self._path, self._encrypt(users, salt))
            finally:
                os.close(lock)

    def _decrypt(self) -> tuple[_Users, bytes]:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        blob = _read_bounded(self._path)
        if blob is None:
            return {}, tokens.token_bytes(_SALT_BYTES)
        head, salt, sealed = _split_file(blob, with_passphrase=self._key.passphrase is not None)
        try:
            plain = AESGCM(self._derive(salt)).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], head)
        except InvalidTag:
            raise SecretBackendError(
                "the secrets file cannot be decrypted with this key",
                hint="set WASMRT_SECRETS_PASSPHRASE to the passphrase that was used when the secrets were stored, or "
                "restore the file and its key from a backup",
            ) from None
        return _parse_users(plain), salt

    def _encrypt(self, users: _Users, salt: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        plain = json.dumps({user: {n: e.as_json() for n, e in entries.items()} for user, entries in users.items()})
        head = _build_header(salt if self._key.passphrase is not None else None)
        # SECURITY: a new random nonce for every write. A key is used for far fewer than the 2**32 writes after which a
        # repetition becomes likely (NIST SP 800-38D, 8.3).
        nonce = tokens.token_bytes(_NONCE_BYTES)
        blob = head + nonce + AESGCM(self._derive(salt)).encrypt(nonce, plain.encode(), head)
        if len(blob) > MAX_SECRETS_FILE_BYTES:
            raise SecretBackendError(f"the secrets file would exceed {MAX_SECRETS_FILE_BYTES} bytes")
        return blob

    def _derive(self, salt: bytes) -> bytes:
        if self._key.path is not None:
            return _read_key(self._key.path)
        if self._derived is None or self._derived[0] != salt:
            from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

            kdf = Scrypt(salt=salt, length=_KEY_BYTES, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P)
            assert self._key.passphrase is not None
            self._derived = salt, kdf.derive(self._key.passphrase.encode())
        return self._derived[1]


def _build_header(salt: bytes | None) -> bytes:
    how: dict[str, Any] = {"key": "file"}
    if salt is not None:
        encoded = base64.b64encode(salt).decode()
        how = {"key": "scrypt", "n": _SCRYPT_N, "r": _SCRYPT_R, "p": _SCRYPT_P, "salt": encoded}
    return _MAGIC + json.dumps(how).encode() + b"\n"


def _split_file(blob: bytes, *, with_passphrase: bool) -> tuple[bytes, bytes, bytes]:
    """Split the content of a secrets file into header, salt and encrypted data.

    SECURITY: the header must equal, byte for byte, a header that this version writes. Parameters from the file are
    never used: a process that can change the file could make scrypt cheap, or exhaust memory.
    """
    end = blob.find(b"\n", len(_MAGIC), len(_MAGIC) + 512) + 1
    head = blob[:end]
    try:
        how = json.loads(head[len(_MAGIC) :]) if blob.startswith(_MAGIC) and end else None
        salt = base64.b64decode(how["salt"]) if isinstance(how, dict) and "salt" in how else None
    except (ValueError, TypeError):
        how = salt = None
    if how is None or head != _build_header(salt) or len(blob) - end < _NONCE_BYTES + _TAG_BYTES:
        raise SecretBackendError("the secrets file was not written by this version of wasmrt")
    if (salt is not None) != with_passphrase:
        needs, step = ("a passphrase", "set") if salt is not None else ("a key file", "unset")
        raise SecretBackendError(f"the secrets file needs {needs}", hint=f"{step} WASMRT_SECRETS_PASSPHRASE")
    return head, salt or b"", blob[end:]


def _parse_users(plain: bytes) -> _Users:
    data = json.loads(plain)
    return {user: {n: Entry.from_json(e) for n, e in entries.items()} for user, entries in data.items()}


def _read_bounded(path: Path) -> bytes | None:
    with _convert_os_errors("the secrets file cannot be read", path):
        try:
            return read_file(path, max_bytes=MAX_SECRETS_FILE_BYTES, follow_link=True)
        except FileNotFoundError:
            return None


def _read_key(path: Path) -> bytes:
    """Read the key from the key file, which is created if it does not exist."""
    with _convert_os_errors("the key file of the secrets cannot be opened", path):
        try:
            key = read_file(path, max_bytes=_KEY_BYTES, follow_link=False, private=True)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            create_file(path, tokens.token_bytes(_KEY_BYTES))
            key = read_file(
                path, max_bytes=_KEY_BYTES, follow_link=False, private=True
            )  # another process may have created it
        except UnfitFileError as error:
            if error.reason is Unfit.TOO_LARGE:
                raise _wrong_size_error(path) from None
            # SECURITY: a key that other users can read or replace protects nothing.
            raise SecretBackendError(
                f"the key file of the secrets {error.reason}",
                path=path,
                hint=f"make yourself the owner of {path.name} with mode 0600 (wasmrt secret list shows its path), "
                "and replace all secrets, which other users may have read",
            ) from None
    if len(key) != _KEY_BYTES:
        raise _wrong_size_error(path)
    return key


def _wrong_size_error(path: Path) -> SecretBackendError:
    return SecretBackendError(
        f"the key file of the secrets must contain exactly {_KEY_BYTES} bytes",
        path=path,
        hint=f"restore the file {path.name} from a backup (wasmrt secret list shows its path)",
    )


@contextlib.contextmanager
def _convert_os_errors(problem: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # SECURITY: message and hint do not contain the host path, because a guest may read them.
        raise SecretBackendError(f"{problem}: {error.strerror}", path=path) from error


@contextlib.contextmanager
def _set_error_path(path: Path) -> Iterator[None]:
    """Set the path of an error that the block raises, if the error does not have a path yet."""
    try:
        yield
    except SecretBackendError as error:
        error.path = error.path or path
        raise
