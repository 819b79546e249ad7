"""Attacks of `wasmrt doctor --attack` with data: schemas, TOML, JSON, addresses and connections without a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MIB
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.core.strict_toml import TomlError, read_toml
from wasmrt.core.url import AddressClass, InvalidUrlError, classify_address, parse_url
from wasmrt.interop.web import Request, Response, WebBounds, WebServer, plain
from wasmrt.sandbox.schema import Validator, schema_problem

_SILENT_CLIENTS = 24
_SECONDS = 5.0
Attempt = Callable[[], str]


def _parse_toml(text: bytes) -> str:
    try:
        read_toml(text)
    except TomlError:
        return "bound"
    return ""


def _parse_json(make: Callable[[], str]) -> str:
    try:
        read_json(make(), max_bytes=4 * MIB, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
    except JsonError:
        return "bound"
    return ""


def _check_params(make: Callable[[], tuple[Mapping[str, Any], Any]]) -> str:
    schema, params = make()
    if schema_problem(schema) is not None:
        return "bound"
    try:
        Validator(schema).accept(params)
    except WasmrtError as error:
        return error.code
    return ""


def _explain_unreachable(host: str) -> str:
    """Return why no request is sent to a private address that is spelled like this; `""` if one would be sent."""
    try:
        found = parse_url(f"http://{host}/").host
    except InvalidUrlError:
        return "url"
    kind = classify_address(found.strip("[]"))
    return "" if kind in (AddressClass.PUBLIC, AddressClass.UNREADABLE) else str(kind.value)


def _hold_connections(sent: bytes) -> str:
    """Open more connections than a server accepts, and return `bound` if another client still gets a response."""

    async def answer(_: Request) -> Response:
        return plain(200, "here")

    async def attempt() -> str:
        held = []
        async with WebServer(answer, bounds=WebBounds(connections=8)) as server:
            try:
                for _ in range(_SILENT_CLIENTS):
                    held.append((await asyncio.open_connection("127.0.0.1", server.port))[1])
                    held[-1].write(sent)
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                held.append(writer)
                writer.write(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
                answered = await asyncio.wait_for(reader.readline(), _SECONDS)
            finally:
                for each in held:
                    each.close()
        return "bound" if b" 200 " in answered else ""

    with suppress(OSError, TimeoutError):
        return asyncio.run(attempt())
    return ""


def _make_items_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"type": "array", "items": schema}}}


def _make_choices_schema() -> dict[str, Any]:
    return _make_items_schema({"anyOf": [{"oneOf": [{"const": -n} for n in range(1, 1_500)]}, {}]})


def _make_references_schema() -> dict[str, Any]:
    """Return a schema of 2 to the power of 24 parts, in which each definition refers to the next one twice."""
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(24)}
    return {"$ref": "#/$defs/d0", "$defs": parts | {"d24": {"type": "object"}}}


def _make_nested_schema() -> dict[str, Any]:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"properties": {"a": deep}}
    return deep


_SCHEMAS: Mapping[str, Callable[[], tuple[Mapping[str, Any], Any]]] = {
    "choices for each of many values": lambda: (_make_choices_schema(), {"x": list(range(30_000))}),
    "references that double": lambda: (_make_references_schema(), {}),
    "a large automaton": lambda: (_make_items_schema({"pattern": "(a{1000}){1000}"}), {"x": ["a"]}),
    "unique numbers of many digits": lambda: (
        {"properties": {"x": {"uniqueItems": True}}},
        {"x": [10**400 + n for n in range(9_000)]},
    ),
    "an error about many values": lambda: (
        {"properties": {"x": {"maxItems": 1}}},
        {"x": [{"a": n} for n in range(90_000)]},
    ),
    "deep nesting": lambda: (_make_nested_schema(), {}),
}
_TOML = {
    "a key of 16,000 parts": b"a" + b".a" * 16_000 + b" = 1",
    "a table of 16,000 parts": b"[a" + b".a" * 16_000 + b"]",
    "a key of many parts in a value": b"x = {a" + b".a" * 16_000 + b" = 1}",
    "deep lists": b"x = " + b"[" * 5_000 + b"]" * 5_000,
}
_JSON: Mapping[str, Callable[[], str]] = {
    "numbers": lambda: "[" + "0.5," * 500_000 + "1]",
    "names": lambda: "{" + ",".join(f'"k{n}":1' for n in range(380_000)) + "}",
    "objects": lambda: "[" + "{}," * (MAX_JSON_PARTS + 1) + "1]",
    "lists": lambda: "[" + "[]," * (MAX_JSON_PARTS + 1) + "1]",
    "numbers before more text": lambda: "[" + "1," * 1_900_000 + "1]x",
    "brackets": lambda: "[" * MIB,
    "characters of four bytes": lambda: json.dumps("\U0001f600" + "a" * 3 * MIB, ensure_ascii=False),
}
_ADDRESSES = (
    "127.0.0.1", "0177.0.0.1", "0x7f.1", "2130706433", "127.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]", "[2002:7f00:1::1]", "[fe80::1%25lo]", "0.0", "[::]", "169.254.169.254", "10.0.0.1",
    "%31%32%37.0.0.1", "a@127.0.0.1", "\uff11\uff12\uff17.0.0.1",
)  # fmt: skip
_CONNECTIONS = {
    "silent": b"",
    "half a request": b"GET / HTTP/1.1\r\nHos",
    "a foreign host": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


def input_attacks() -> Iterator[tuple[str, str, Attempt]]:
    """Yield the family, description and attempt of each attack."""
    for about, text in _TOML.items():
        yield "toml", about, partial(_parse_toml, text)
    for about, make in _JSON.items():
        yield "json", f"many {about}", partial(_parse_json, make)
    for about, make_both in _SCHEMAS.items():
        yield "schema", about, partial(_check_params, make_both)
    for host in _ADDRESSES:
        yield "address", host.encode("ascii", "backslashreplace").decode(), partial(_explain_unreachable, host)
    for about, sent in _CONNECTIONS.items():
        yield "connections", about, partial(_hold_connections, sent)
