"""Landlock: restrict the files that a process may read, write and execute, and the TCP ports it may connect to.

Source: linux/landlock.h, landlock(7). Needs no privileges; everything not granted is denied for this process and its
children. Landlock does not cover `stat`, changes of modes, owners, times and attributes, UDP, or path-based sockets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from struct import pack

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine import _libc, _process

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_SOCK, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FILE_SYSTEM_BITS = (0, 13, 14, 15, 15, 16)  # number of rights in each ABI version
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_BIND_TCP, _CONNECT_TCP = 1, 2
NETWORK_ABI, _SCOPE_ABI = 4, 6
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_RULE_PATH, _RULE_PORT = 1, 2
_GET_VERSION = 1


def read_abi() -> int:
    """Return the Landlock ABI version of the kernel, or 0 if it has none."""
    try:
        return _libc.syscall("landlock_create_ruleset", 0, 0, _GET_VERSION)
    except OSError:
        return 0


class Ruleset:
    """A kernel ruleset of the paths and ports that may be accessed; everything else is denied.

    Args:
        read: Paths that may be read recursively.
        write: Paths that may be read and written recursively. No devices or sockets can be created there.
        execute: Paths that may be read and executed recursively.
        connect: TCP ports that may be connected to, or None for all ports. Binding is only allowed with None.
        optional: Paths that may be missing.

    Raises:
        ConfineError: a path that is not optional does not exist, or the kernel rejects the rules.
    """

    def __init__(
        self,
        read: Iterable[str],
        write: Iterable[str],
        execute: Iterable[str],
        connect: Sequence[int] | None,
        optional: frozenset[str] = frozenset(),
    ) -> None:
        version = read_abi()
        if connect and version < NETWORK_ABI:
            # SECURITY: never allow more ports than were named.
            raise ConfineError(
                "this kernel cannot restrict TCP ports", hint="use Linux 6.7 or newer, or allow every port"
            )
        self._rights = (1 << _FILE_SYSTEM_BITS[min(version, len(_FILE_SYSTEM_BITS) - 1)]) - 1
        network = (_BIND_TCP | _CONNECT_TCP) if version >= NETWORK_ABI and connect is not None else 0
        scoped = (_SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS) if version >= _SCOPE_ABI else 0
        size = 24 if version >= _SCOPE_ABI else 16 if version >= NETWORK_ABI else 8
        attributes = pack("=QQQ", self._rights, network, scoped)[:size]
        self.descriptor = _process.move_high(
            _libc.syscall("landlock_create_ruleset", _libc.address(attributes), size, 0)
        )
        reading = _READ_FILE | _READ_DIR
        writing = self._rights & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK | _MAKE_SOCK | _IOCTL_DEV)
        try:
            for paths, rights in ((read, reading), (execute, reading | _EXECUTE), (write, writing)):
                for path in paths:
                    self._allow(path, rights, path in optional)
            if network:
                for port in connect or ():
                    self._add(_RULE_PORT, pack("=QQ", _CONNECT_TCP, port))
        except BaseException:
            os.close(self.descriptor)
            raise

    def enter(self) -> None:
        """Confine this thread, and close the descriptor. no_new_privs must be set.

        Raises:
            OSError: the kernel rejects the ruleset.
        """
        _libc.syscall("landlock_restrict_self", self.descriptor, 0)
        os.close(self.descriptor)

    def _allow(self, path: str, rights: int, may_be_missing: bool) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            if may_be_missing:
                return
            raise ConfineError(
                f"cannot grant access to {path}: {error.strerror}", hint="name existing paths"
            ) from error
        try:
            if not _is_directory(descriptor):
                rights &= _OF_FILES
            self._add(_RULE_PATH, pack("=Qi", rights & self._rights, descriptor))
        finally:
            os.close(descriptor)

    def _add(self, kind: int, rule: bytes) -> None:
        _libc.syscall("landlock_add_rule", self.descriptor, kind, _libc.address(rule), 0)


def _is_directory(descriptor: int) -> bool:
    return os.fstat(descriptor).st_mode & 0o170000 == 0o040000
