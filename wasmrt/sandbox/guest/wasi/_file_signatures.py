"""The WIT types of wasi:filesystem/types@0.2, as the engine spells them."""

from __future__ import annotations

_DATETIME = "record { seconds: u64, nanoseconds: u32 }"
_ERROR = (
    "enum { access, would-block, already, bad-descriptor, busy, deadlock, quota, exist, file-too-large, "
    "illegal-byte-sequence, in-progress, interrupted, invalid, io, is-directory, loop, too-many-links, message-size, "
    "name-too-long, no-device, no-entry, no-lock, insufficient-memory, insufficient-space, not-directory, not-empty, "
    "not-recoverable, unsupported, no-tty, no-such-device, overflow, not-permitted, pipe, read-only, invalid-seek, "
    "text-file-busy, cross-device }"
)
_KIND = "enum { unknown, block-device, character-device, directory, fifo, symbolic-link, regular-file, socket }"
_FLAGS = "flags { read, write, file-integrity-sync, data-integrity-sync, requested-write-sync, mutate-directory }"
_PATH_FLAGS = "flags { symlink-follow }"
_STATUS = (
    f"record {{ type: {_KIND}, link-count: u64, size: u64, data-access-timestamp: option<{_DATETIME}>, "
    f"data-modification-timestamp: option<{_DATETIME}>, status-change-timestamp: option<{_DATETIME}> }}"
)
_HASH = "record { lower: u64, upper: u64 }"
_NEW = f"variant {{ no-change, now, timestamp({_DATETIME}) }}"
_TIMES = f"data-access-timestamp: {_NEW}, data-modification-timestamp: {_NEW}"
_DONE = f"result<_, {_ERROR}>"
_SELF = "self: borrow<descriptor>"

FILE_SIGNATURES: dict[str, str] = {
    "filesystem-error-code": f"func(err: borrow<error>) -> option<{_ERROR}>",
    "[method]descriptor.read-via-stream": f"func({_SELF}, offset: u64) -> result<input-stream, {_ERROR}>",
    "[method]descriptor.write-via-stream": f"func({_SELF}, offset: u64) -> result<output-stream, {_ERROR}>",
    "[method]descriptor.append-via-stream": f"func({_SELF}) -> result<output-stream, {_ERROR}>",
    "[method]descriptor.advise": f"func({_SELF}, offset: u64, length: u64, "
    f"advice: enum {{ normal, sequential, random, will-need, dont-need, no-reuse }}) -> {_DONE}",
    "[method]descriptor.sync-data": f"func({_SELF}) -> {_DONE}",
    "[method]descriptor.get-flags": f"func({_SELF}) -> result<{_FLAGS}, {_ERROR}>",
    "[method]descriptor.get-type": f"func({_SELF}) -> result<{_KIND}, {_ERROR}>",
    "[method]descriptor.set-size": f"func({_SELF}, size: u64) -> {_DONE}",
    "[method]descriptor.set-times": f"func({_SELF}, {_TIMES}) -> {_DONE}",
    "[method]descriptor.read": f"func({_SELF}, length: u64, offset: u64) -> result<tuple<list<u8>, bool>, {_ERROR}>",
    "[method]descriptor.write": f"func({_SELF}, buffer: list<u8>, offset: u64) -> result<u64, {_ERROR}>",
    "[method]descriptor.read-directory": f"func({_SELF}) -> result<directory-entry-stream, {_ERROR}>",
    "[method]descriptor.sync": f"func({_SELF}) -> {_DONE}",
    "[method]descriptor.create-directory-at": f"func({_SELF}, path: string) -> {_DONE}",
    "[method]descriptor.stat": f"func({_SELF}) -> result<{_STATUS}, {_ERROR}>",
    "[method]descriptor.stat-at": f"func({_SELF}, path-flags: {_PATH_FLAGS}, path: string) -> "
    f"result<{_STATUS}, {_ERROR}>",
    "[method]descriptor.set-times-at": f"func({_SELF}, path-flags: {_PATH_FLAGS}, path: string, {_TIMES}) -> {_DONE}",
    "[method]descriptor.link-at": f"func({_SELF}, old-path-flags: {_PATH_FLAGS}, old-path: string, "
    f"new-descriptor: borrow<descriptor>, new-path: string) -> {_DONE}",
    "[method]descriptor.open-at": f"func({_SELF}, path-flags: {_PATH_FLAGS}, path: string, "
    f"open-flags: flags {{ create, directory, exclusive, truncate }}, flags: {_FLAGS}) -> result<descriptor, {_ERROR}>",
    "[method]descriptor.readlink-at": f"func({_SELF}, path: string) -> result<string, {_ERROR}>",
    "[method]descriptor.remove-directory-at": f"func({_SELF}, path: string) -> {_DONE}",
    "[method]descriptor.rename-at": f"func({_SELF}, old-path: string, "
    f"new-descriptor: borrow<descriptor>, new-path: string) -> {_DONE}",
    "[method]descriptor.symlink-at": f"func({_SELF}, old-path: string, new-path: string) -> {_DONE}",
    "[method]descriptor.unlink-file-at": f"func({_SELF}, path: string) -> {_DONE}",
    "[method]descriptor.is-same-object": f"func({_SELF}, other: borrow<descriptor>) -> bool",
    "[method]descriptor.metadata-hash": f"func({_SELF}) -> result<{_HASH}, {_ERROR}>",
    "[method]descriptor.metadata-hash-at": f"func({_SELF}, path-flags: {_PATH_FLAGS}, path: string) -> "
    f"result<{_HASH}, {_ERROR}>",
    "[method]directory-entry-stream.read-directory-entry": f"func(self: borrow<directory-entry-stream>)"
    f" -> result<option<record {{ type: {_KIND}, name: string }}>, {_ERROR}>",
}
