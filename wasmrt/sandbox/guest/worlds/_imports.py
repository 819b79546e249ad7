"""The imports of the tool worlds: each function is bound to its implementation."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from typing import Any

from wasmrt.core.limits import MAX_HEADER_BYTES, MAX_WORKSPACE_FILE_BYTES
from wasmrt.core.model import LogLevel
from wasmrt.sandbox.component import Err, Ok, worlds
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.outcome import take_written_failure
from wasmrt.sandbox.guest.replies import DirectoryEntry, HostFailure
from wasmrt.sandbox.guest.requests import (
    HttpOpen,
    InvokeTool,
    ReportProgress,
    Request,
    SecretExists,
    WorkspaceCopy,
    WorkspaceList,
    WorkspaceMakeDirectory,
    WorkspaceRead,
    WorkspaceReadPart,
    WorkspaceRemove,
    WorkspaceRename,
    WorkspaceStat,
    WorkspaceWrite,
)
from wasmrt.sandbox.guest.services import HttpResponse


def as_text(failure: HostFailure) -> str:
    return f"{failure.code}: {failure.message}"


def as_failure(failure: HostFailure) -> dict[str, Any]:
    return {"kind": failure.kind, "code": failure.code, "message": failure.message}


def as_http_failure(failure: HostFailure) -> dict[str, Any]:
    return {**as_failure(failure), "request-sent": failure.request_sent}


def result(render: Callable[[HostFailure], Any], ask: Callable[..., Any], *values: Any) -> Ok | Err:
    """Call `ask` and return its reply as `Ok`, or its failure, converted by `render`, as `Err`."""
    try:
        return Ok(ask(*values))
    except HostFailure as failure:
        return Err(render(failure))


def forward(request: Callable[..., Request[Any]]) -> Callable[..., Ok | Err]:
    """Return a host function that sends its parameters to the host as a request of the class `request`."""
    return lambda ctx, *values: result(as_failure, ctx.services.handle, request(*values))


def log(ctx: GuestCall, level: str, message: str) -> None:
    if not take_written_failure(ctx, message):
        ctx.log(LogLevel(level), message)


def now_millis(ctx: GuestCall) -> int:
    return ctx.clock.now_ns() // 1_000_000


def monotonic(ctx: GuestCall) -> int:
    return ctx.clock.monotonic_ns()


def progress(ctx: GuestCall, done: int, total: int | None, message: str | None) -> None:
    ctx.services.handle(ReportProgress(done, total, message))


def exists(ctx: GuestCall, name: str) -> bool:
    return ctx.services.handle(SecretExists(name))


def agent_invoke(ctx: GuestCall, alias: str, params: str) -> Ok | Err:
    return result(as_text, ctx.services.handle, InvokeTool(alias, params))


def agent_read(ctx: GuestCall, path: str) -> str | None:
    """Return the text of a file, or None after any failure: near:agent worlds cannot express the reason."""
    try:
        return ctx.services.handle(WorkspaceRead(path)).decode("utf-8")
    except (HostFailure, UnicodeDecodeError):
        return None


read = forward(WorkspaceRead)
write = forward(WorkspaceWrite)


def read_text(ctx: GuestCall, path: str) -> Ok | Err:
    return _decode(read(ctx, path), final=True)


_MAX_OFFSET = 2**63 - 1


def read_text_part(ctx: GuestCall, path: str, offset: int, length: int) -> Ok | Err:
    length = min(length, MAX_WORKSPACE_FILE_BYTES)
    content = result(as_failure, ctx.services.handle, WorkspaceReadPart(path, min(offset, _MAX_OFFSET), length))
    # A part that ends within a character is decoded up to it, except at the end of the file.
    return _decode(content, final=isinstance(content, Ok) and len(content.value) < length)


def _decode(content: Ok | Err, *, final: bool) -> Ok | Err:
    if isinstance(content, Err):
        return content
    try:
        return Ok(codecs.utf_8_decode(content.value, "strict", final)[0])
    except UnicodeDecodeError:
        return Err({"kind": FailureKind.OPERATION_FAILED, "code": "not-text", "message": "the file is not UTF-8 text"})


def list_entries(ctx: GuestCall, path: str) -> Ok | Err:
    listed = result(as_failure, ctx.services.handle, WorkspaceList(path))
    return listed if isinstance(listed, Err) else Ok([_to_entry(entry) for entry in listed.value])


def stat(ctx: GuestCall, path: str) -> Ok | Err:
    found = result(as_failure, ctx.services.handle, WorkspaceStat(path))
    return found if isinstance(found, Err) else Ok(_to_entry(found.value))


def write_text(ctx: GuestCall, path: str, content: str, new: bool) -> Ok | Err:
    return write(ctx, path, content.encode("utf-8"), new)


def remove(ctx: GuestCall, path: str, kind: str) -> Ok | Err:
    return result(as_failure, ctx.services.handle, WorkspaceRemove(path, directory=kind == "directory"))


def _to_entry(entry: DirectoryEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": "directory" if entry.is_directory else "file",
        "size": 0 if entry.is_directory else entry.size_bytes,
    }


def agent_request(ctx: GuestCall, *asked: Any) -> Ok | Err:
    return result(as_text, _send_agent_request, ctx, *asked)


def agent_request_typed(ctx: GuestCall, *asked: Any) -> Ok | Err:
    return result(as_http_failure, _send_agent_request, ctx, *asked)


def fetch(ctx: GuestCall, request: dict[str, Any]) -> Ok | Err:
    return result(as_failure, _fetch, ctx, request)


def _fetch(ctx: GuestCall, request: dict[str, Any]) -> dict[str, Any]:
    headers = tuple((header["name"], header["value"]) for header in request["headers"])
    status, received, body = _send(
        ctx, request["method"], request["url"], headers, request["body"], request["timeout-ms"]
    )
    return {"status": status, "headers": [{"name": name, "value": value} for name, value in received], "body": body}


def _send_agent_request(
    ctx: GuestCall, method: str, url: str, headers_json: str, body: bytes | None, timeout_ms: int | None
) -> dict[str, Any]:
    status, headers, received = _send(ctx, method, url, _read_headers(headers_json), body, timeout_ms)
    joined: dict[str, str] = {}
    for name, value in headers:
        # In this world, headers are an object with unique names, so values are joined as in RFC 9110, section 5.3.
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return {"status": status, "headers-json": json.dumps(joined), "body": received}


def _read_headers(text: str) -> tuple[tuple[str, str], ...]:
    if not text.strip():
        return ()
    if len(text) > MAX_HEADER_BYTES:
        raise HostFailure(FailureKind.INPUT, "invalid-headers", f"headers-json is over {MAX_HEADER_BYTES} bytes")
    try:
        headers = json.loads(text)
    except (ValueError, RecursionError):
        headers = None
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise HostFailure(FailureKind.INPUT, "invalid-headers", "headers-json must be a JSON object of strings")
    return tuple(headers.items())


def _send(
    ctx: GuestCall,
    method: str,
    url: str,
    headers: tuple[tuple[str, str], ...],
    body: bytes | None,
    timeout_ms: int | None,
) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
    seconds = None if timeout_ms is None else timeout_ms / 1000
    response = HttpResponse(ctx.services, HttpOpen(method.upper(), url, headers, body, seconds))
    try:
        return response.status, response.headers, response.read_all()
    finally:
        response.close()


_AGENT: dict[str, Callable[..., Any]] = {
    "log": log,
    "now-millis": now_millis,
    "workspace-read": agent_read,
    "http-request": agent_request,
    "tool-invoke": agent_invoke,
    "secret-exists": exists,
}
_AGENT_TYPED = _AGENT | {"http-request": agent_request_typed}
_TOOL: dict[str, dict[str, Callable[..., Any]]] = {
    "types": {},
    "http": {"fetch": fetch},
    "workspace": {
        "read": read,
        "read-text": read_text,
        "read-text-part": read_text_part,
        "list": list_entries,
        "stat": stat,
        "write": write,
        "write-text": write_text,
        "copy": forward(WorkspaceCopy),
        "make-directory": forward(WorkspaceMakeDirectory),
        "remove": remove,
        "rename": forward(WorkspaceRename),
    },
    "secrets": {"exists": exists},
    "tools": {"invoke": forward(InvokeTool)},
    "log": {"log": log},
    "clock": {"now": now_millis, "monotonic": monotonic},
    "progress": {"report": progress},
}


def interfaces() -> tuple[HostInterface, ...]:
    """Return the interfaces of near:agent and wasmrt:tool that a guest may import."""
    return tuple(
        HostInterface(name, _get_functions(world, name), signatures=worlds.signatures(name))
        for world in worlds.ALL_WORLDS
        for name in world.imports
    )


def _get_functions(world: worlds.World, interface: str) -> dict[str, Callable[..., Any]]:
    if world is worlds.TOOL_WORLD:
        return _TOOL[interface.partition("/")[2].partition("@")[0]]
    return _AGENT_TYPED if world.has_typed_failures else _AGENT
