"""The cases by name; see `c_call_cases`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import anyio
import h11
import jwt
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from tests.core.test_toml_bounds import ACCEPTED as TOML_ACCEPTED
from tests.core.test_toml_bounds import REFUSED as TOML_REFUSED
from tests.project.c_call_cases import Case, Make, fill, series
from tests.sandbox.schema.test_host_time import ITEMS, array, most_items, params_of
from wasmrt import tool
from wasmrt.agent.builtin.plugins._protocol import PROTOCOL_VERSION, decode_response
from wasmrt.agent.builtin.shell._code import is_known_code
from wasmrt.agent.builtin.shell._commands import NotUnderstoodError
from wasmrt.agent.builtin.shell._decide import MAX_COMMAND_CHARS
from wasmrt.agent.builtin.shell._reader import read_script
from wasmrt.agent.flows._untrusted_text import UntrustedText
from wasmrt.agent.registry._output import MAX_MEDIA_BYTES, _count_decoded_bytes
from wasmrt.agent.safety import Sanitizer
from wasmrt.capabilities._fields import Problems
from wasmrt.capabilities.sections import read_json as read_capability_json
from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import (
    KIB,
    MAX_CAPABILITY_FILE_BYTES,
    MAX_FLOW_BYTES,
    MAX_HEADER_BYTES,
    MAX_JSON_DEPTH,
    MAX_JSON_PARTS,
    MAX_MCP_MESSAGE_BYTES,
    MAX_MEMORY_DOCUMENT_BYTES,
    MAX_OWN_RESPONSE_BYTES,
    MAX_PARAMS_BYTES,
    MAX_PLUGIN_OUTPUT_BYTES,
    MIB,
)
from wasmrt.core.normal_form import normalize
from wasmrt.core.strict_toml import TomlError, read_toml
from wasmrt.egress.http1 import new_connection
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.oauth._tokens import json_object
from wasmrt.interop.mcp.client._guard import _MAX_QUOTES, check_entries, check_message, read_line
from wasmrt.interop.mcp.client._transport import _Body
from wasmrt.interop.mcp.server.protocol._wire import MAX_MESSAGE_BYTES, UnreadableError, read_message
from wasmrt.runtime.call._answer import read_params
from wasmrt.sandbox.schema import Validator
from wasmrt.sandbox.schema._work import MAX_ERROR_VALUES
from wasmrt.sandbox.schema.wit._scalars import MisfitError, read_bytes


def json_shapes(size: int) -> dict[str, Any]:
    """Return texts of `size` bytes that are costly to parse."""
    return {
        "long names": lambda: series('"' + "n" * (size // 45_000) + '{}":1,', size * 38 // 45, "{", '"":1}'),
        "strings": lambda: fill('"ab","cd","ef",', size // 2),
        "escapes": lambda: fill("\\n", size * 3 // 8, '["', '"]'),
        "code points": lambda: fill("\\u0441", size, '["', '"]'),
        "surrogates": lambda: fill("\\ud83d\\ude00", size, '["', '"]'),
        "wide text": lambda: fill("\U0001f600", size, '["', '"]'),
        "one wide character": lambda: wide(size, "\U0001f600"),
        "one wide escape": lambda: wide(size, "\\ud83d\\ude00"),
        "digits": lambda: fill("9" * 4_000 + ",", size // 2),
        "a long fraction": lambda: "0." + "1" * (size - 2),
        "nesting": lambda: fill("[" * (MAX_JSON_DEPTH - 1) + "]" * (MAX_JSON_DEPTH - 1) + ",", min(size, 200_000)),
        "lists": lambda: fill("[],", min(size, 3 * MAX_JSON_PARTS - 100)),
        "objects": lambda: fill("{},", min(size, 3 * MAX_JSON_PARTS - 100)),
        "spaces": lambda: "{" + "".join(f'"{n}":1,' for n in range(50_000)) + " " * (size - 10**6) + '"":1}',
        "names": lambda: series('"{}":1,', size, "{", '"":1}'),
        "numbers": lambda: fill("0.1,", size),
        "short numbers": lambda: fill("1,", size),
        "short strings": lambda: fill('"ab",', size),
        "records": lambda: series('{{"id":{},"name":"a name","tags":["a"]}},', size),
    }


def wide(size: int, character: str) -> str:
    """Return a text whose strings take four bytes of memory per character, of at most `size` bytes."""
    return fill("a", min(size - 12, 2 * MIB - 100), '["', f'{character}"]')


def json_over(size: int) -> dict[str, Any]:
    """Return texts over a bound of JSON data of `size` bytes."""
    brackets = {"only brackets": lambda: fill('"[",', size)} if size // 4 > MAX_JSON_PARTS else {}
    return brackets | {
        "more text after the value": lambda: fill("1,", size - 100) + "x",
        "a byte more": lambda: " " * (size + 200) + "1",
        "more lists": lambda: fill("[],", 3 * MAX_JSON_PARTS + 100),
        "deeper": lambda: "[" * (size // 2) + "]" * (size // 2),
        "not closed": lambda: "[" + "{" * 60,
    }


def json_case(call: Any, size: int, *refusals: type[Exception]) -> Case:
    """Return the case of a reader for JSON text of `size` bytes."""
    return Case(call, lambda: "[1]", json_shapes(size), json_over(size), refusals)


def capability_json(text: str) -> None:
    problems = Problems()
    read_capability_json(text, problems)
    if problems:
        raise NotKnownError


def own_response(text: str) -> None:
    if json_object(f'{{"x":{text}}}'.encode()) == {}:
        raise NotKnownError


def plugin(text: str) -> object:
    begin = '{"protocol_version":%d,"request_id":"r","ok":true,"x":'
    return decode_response(f"{begin % PROTOCOL_VERSION}{text}}}", "r")


MCP_RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"x":{"y":'
MCP_REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":{"y":'


def mcp_body(make: Make, start: bytes = MCP_RESULT) -> bytes:
    """Return a message with a value."""
    return start + make().encode() + b"}}}"


def bodies(shapes: Mapping[str, Make], start: bytes = MCP_RESULT) -> dict[str, Make]:
    """Return functions that return messages with the values of `shapes`."""
    return {name: partial(mcp_body, make, start) for name, make in shapes.items()}


def mcp_http(data: bytes) -> None:
    """Read a response as the SDK does, which parses its whole body in one C call."""

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 64 * KIB):
            yield data[at : at + 64 * KIB]

    async def read() -> bytes:
        return b"".join([piece async for piece in _Body(pieces(), is_stream=False)])

    message = jsonrpc_message_adapter.validate_json(anyio.run(read), by_name=False)
    check_entries(message)
    check_message(message)


def params(text: str) -> object:
    return read_params(text, lambda: None)


class NotKnownError(Exception):
    """Code is not accepted; the caller asks a person."""


def python_code(code: str) -> None:
    if not is_known_code("python3", code):
        raise NotKnownError


def script(text: str) -> object:
    if len(text) > MAX_COMMAND_CHARS:
        raise NotUnderstoodError("too long")
    return read_script(text, environment=frozenset(), given={})


def media(text: str) -> None:
    if _count_decoded_bytes(text) is None:
        raise NotKnownError


def flow(text: str) -> None:
    found = UntrustedText()
    found.add(text)
    found.contains("somebody@example.com")
    if found.blind:
        raise NotKnownError


def head(data: bytes) -> object:
    connection = new_connection(h11.SERVER, max_head_bytes=MAX_HEADER_BYTES)
    connection.receive_data(data)
    return connection.next_event()


def public_key(modulus: str) -> object:
    return jwt.PyJWK({"kty": "RSA", "n": modulus, "e": "AQAB"}, algorithm="RS256").key


SCHEMAS = ("one of constants", "enum mixed", "unique very big", "large pattern", "properties")


def schema_at_bound(name: str, times: int = 1) -> Any:
    """Return a function that returns a validator, and params of `times` the largest size that it checks."""

    def make() -> tuple[Validator, Any]:
        schema, item = ITEMS[name]
        validator = Validator(schema)
        return validator, params_of(item, times * most_items(validator, item))

    return make


REFUSING = {
    "an error of all items": {"maxItems": 1},
    "an item that is missing": {"contains": {"const": -1}},
    "items that are not allowed": {"prefixItems": [{}], "unevaluatedItems": False},
    "another type": {"type": "string"},
}


def schema_that_refuses(schema: dict[str, Any], count: int) -> Make:
    """Return a function that returns a validator, and an array of objects that its schema refuses."""
    return lambda: (Validator(array(schema)), {"x": [{"a": n} for n in range(count)]})


def leak_scan(text: str) -> object:
    return DETECTOR.redact(text)


TEXTS = {
    "marks in a row": lambda size: "a" + "\u0301\u0323" * (size // 4),
    "runs of marks": lambda size: ("a" + "\u0301\u0323" * 500) * (size // 2001),
    "long compositions": lambda size: "\ufdfa" * (size // 3),
    "syllables": lambda size: "\uac01" * (size // 3),
    "words": lambda size: "abc def ghi 12,345.67 " * (size // 22),
    "one word": lambda size: "a" * size,
    "digits": lambda size: "1" * size,
    "punctuation": lambda size: "." * size,
    "escapes": lambda size: "%41" * (size // 3),
    "entities": lambda size: "&amp;" * (size // 5),
    "tags": lambda size: "a<b>" * (size // 4),
    "invisible": lambda size: "\u200b" * (size // 3),
    "terminal": lambda size: "\x1b[" * (size // 2),
    "template": lambda size: "<|" * (size // 2),
    "spaces": lambda size: " " * size,
    "lines": lambda size: "a\n" * (size // 2),
    "base64": lambda size: "QUJDREVGR0hJSktMTU5P" * (size // 20),
    "hosts": lambda size: "a.b." * (size // 4),
    "open tags": lambda size: ("<" + " " * 4000) * (size // 4001),
    "blanks in a tag": lambda size: "<" + " " * (size - 12) + "tool_output",
    "slashes": lambda size: "/../" * (size // 4),
}


def constants(shapes: Mapping[str, str]) -> dict[str, Make]:
    return {name: partial(str, text) for name, text in shapes.items()}


def texts(size: int, only: str = "") -> dict[str, Any]:
    return {name: (lambda make=make: make(size)) for name, make in TEXTS.items() if not only or name in only.split(",")}


CODE = {
    "statements": "a=1;" * 4_096,
    "lines": "1\n" * 8_192,
    "short lines": "0\n" * 2_048,
    "numbers": "x=[" + "1," * 8_190 + "]",
    "objects": "x=[" + "{1:2}," * 2_729 + "]",
    "parentheses": ("(" * 100 + "1" + ")" * 100 + ";") * 81,
    "texts": "f'{1}';" * 2_340,
    "sums": ("1+" * 100 + "1\n") * 80,
    "lambdas": ("lambda:" * 50 + "1\n") * 46,
}
SCRIPTS = {
    "negations": "!a|" * 399,
    "many negations": "!a|" * 5_461,
    "patterns in pipes": "|@(" * 5_461,
    "declarations": "declare |&" * 1_638,
    "allowed pipes": "|@(" * 1_000,
    "wrong redirections": "!(>" * 4_000,
    "commands": "a;" * 8_192,
    "words": "a " * 8_192,
    "pipes": "a|" * 8_191 + "a",
    "substitutions": "$(a)" * 4_096,
    "nested substitutions": "$(" * 5_000 + ")" * 5_000,
    "expansions": "${a}" * 4_096,
    "quotes": "'a'" * 5_461,
    "unclosed quotes": "a'" * 8_191,
    "here-documents": "<<a " * 4_096,
    "brackets": "[[ " * 5_461,
    "braces": "{a," * 5_461,
    "arithmetic": "((" * 8_192,
    "cases": "case a in " * 1_638,
    "conditions": "if a;then " * 1_638,
    "bytes": "\xff" * 16_384,
    "redirections": ">a" * 8_192,
    "assignments": "a=b " * 4_096,
}

DETECTOR = LeakDetector()


@tool
def count_records(records: list[dict[str, Any]]) -> int:
    """Return the number of records."""
    return len(records)


MCP_BYTES = MAX_MCP_MESSAGE_BYTES - 100
# Each has as much of one costly part as an MCP message may have; in MCP_OVER, it has more.
MCP_SHAPES = {
    "quotation marks": lambda: fill('"ab",', 5 * _MAX_QUOTES // 2 - 30_000),
    "long integers": lambda: fill("9" * 399 + "," + " " * 7_000, MCP_BYTES),
    "names on lines": lambda: series('"{}":1,\n\n', 14 * 46_000, "{", '"":1}'),
    "lists on lines": lambda: fill("[],\n\n", 5 * 37_000),
    "deep lists": lambda: fill("[" * 60 + "]" * 60 + ",", 2 * 42_000),
    "lists in objects": lambda: fill('{"a":[]},', 9 * 17_000),
    "records on lines": lambda: series('{{"id":{},"name":"a name","tags":["a"]}},\n\n', 46 * 8_500),
    "longer names": lambda: series('"' + "n" * 93 + '{}":1,', 2_850_000, "{", '"":1}'),
    "wide characters": lambda: wide(1_400_000, "\U0001f600"),
    "long numbers": lambda: fill("12345678901234567890,", 21 * 63_000),
    "long fractions": lambda: fill("9007199254740993.0,", 19 * 68_000),
    "text": lambda: fill("\u4e2d", 2_800_000, '["', '"]'),
    "escaped quotes": lambda: fill('\\"', MAX_MCP_MESSAGE_BYTES // 12, '["', '"]'),
}
MCP_OVER = {
    "more quotation marks": lambda: fill('"ab",', 5 * _MAX_QUOTES // 2 + 5_000),
    "longer integers": lambda: fill("9" * 4_000 + ",", MCP_BYTES),
    "more names on lines": lambda: series('"{}":1,\n\n', MCP_BYTES, "{", '"":1}'),
    "more lists on lines": lambda: fill("[],\n\n", MCP_BYTES),
}
MCP_HTTP_OVER = {
    "longer": lambda: fill("a", 2 * MAX_MCP_MESSAGE_BYTES, '["', '"]'),
    "deep lists": lambda: fill("[" * 60 + "]" * 60 + ",", 2 * 50_000),
    "wider": lambda: wide(MAX_MCP_MESSAGE_BYTES // 2, "\U0001f600"),
    "a wide escape": lambda: wide(MAX_MCP_MESSAGE_BYTES // 2, "\\ud83d\\ude00"),
}
CASES = {
    "params": json_case(params, MAX_PARAMS_BYTES, WasmrtError),
    "json-exact": json_case(plugin, MAX_PLUGIN_OUTPUT_BYTES - 100, WasmrtError),
    "mcp-line": Case(
        read_line,
        partial(mcp_body, lambda: "[1]"),
        bodies(json_shapes(MCP_BYTES) | MCP_SHAPES),
        bodies(json_over(MCP_BYTES) | MCP_OVER),
        (WasmrtError,),
    ),
    "mcp-http": Case(
        mcp_http,
        partial(mcp_body, lambda: "[1]"),
        bodies(json_shapes(MCP_BYTES) | MCP_SHAPES),
        bodies(MCP_OVER | MCP_HTTP_OVER),
        (WasmrtError, ValidationError),
    ),
    "mcp-message": Case(
        read_message,
        partial(mcp_body, lambda: "[1]", MCP_REQUEST),
        bodies(json_shapes(MAX_MESSAGE_BYTES - 100), MCP_REQUEST),
        bodies(json_over(MAX_MESSAGE_BYTES - 100), MCP_REQUEST),
        (UnreadableError,),
    ),
    "own-response": json_case(own_response, MAX_OWN_RESPONSE_BYTES - 100, NotKnownError),
    "capability-file": json_case(capability_json, MAX_CAPABILITY_FILE_BYTES, NotKnownError),
    "toml": Case(
        lambda text: read_toml(text.encode()),
        lambda: "a = 1",
        constants(TOML_ACCEPTED),
        constants(TOML_REFUSED),
        (TomlError,),
    ),
    "python-code": Case(
        python_code,
        lambda: "1",
        constants(CODE),
        {"longer": lambda: "1" * 16_385},
        (NotKnownError,),
    ),
    "script": Case(
        script,
        lambda: "a",
        constants(SCRIPTS),
        {"longer": lambda: "a" * (MAX_COMMAND_CHARS + 1)},
        (NotUnderstoodError,),
    ),
    "media": Case(
        media,
        lambda: "AAAA",
        {"plain": lambda: "AAAA" * (MAX_MEDIA_BYTES // 4)},
        {"longer": lambda: "A" * (MAX_MEDIA_BYTES + 4), "broken": lambda: "A?" * (MAX_MEDIA_BYTES // 2)},
        (NotKnownError,),
    ),
    "normal-form": Case(
        lambda text: normalize("NFKC", text), lambda: "\xe4" * 3000, texts(MAX_MEMORY_DOCUMENT_BYTES), {}, ()
    ),
    "flow-text": Case(flow, lambda: "\xe4" * 3000, texts(MAX_FLOW_BYTES // 8), {}, (NotKnownError,)),
    "sanitizer": Case(Sanitizer().sanitize, lambda: "a\x1b[1m", texts(MAX_MCP_MESSAGE_BYTES), {}, ()),
    "public-key": Case(
        public_key,
        lambda: "_w" * 300,
        {"a long modulus": lambda: "_w" * 2_000, "longer": lambda: "_w" * 100_000},
        {},
        (ValueError, jwt.PyJWTError),
    ),
    "wit-bytes": Case(
        read_bytes,
        lambda: "AAAA",
        {"plain": lambda: "AAAA" * (MAX_PARAMS_BYTES // 4)},
        {"broken": lambda: "A?" * (MAX_PARAMS_BYTES // 2)},
        (MisfitError,),
    ),
    "schema": Case(
        lambda at: at[0].accept(at[1]),
        lambda: (Validator({}), {}),
        {name: schema_at_bound(name) for name in SCHEMAS}
        | {f"few: {name}": schema_that_refuses(schema, MAX_ERROR_VALUES // 2 - 2) for name, schema in REFUSING.items()},
        {name: schema_at_bound(name, 3) for name in SCHEMAS}
        | {name: schema_that_refuses(schema, MAX_JSON_PARTS - 2) for name, schema in REFUSING.items()},
        (WasmrtError,),
    ),
    "leak-scan": Case(
        leak_scan,
        lambda: "a",
        {**texts(MAX_MCP_MESSAGE_BYTES), "a secret": lambda: "sk-" + "a1B2" * 10**6},
        {},
        (WasmrtError,),
    ),
    "arguments": Case(
        lambda records: count_records.execute({"records": records}),
        lambda: [{"a": 1}],
        {
            "records": lambda: [{"id": n, "tags": ["a"]} for n in range(27_000)],
            "objects": lambda: [{} for _ in range(MAX_JSON_PARTS)],
            "errors": lambda: [0.5] * 109_000,
        },
        {"numbers": lambda: [0.5] * 300_000, "more numbers": lambda: [0.5] * 1_200_000},
        (WasmrtError,),
    ),
    "control": Case(json.loads, lambda: "1", {"names": json_shapes(8 * MIB)["names"]}, {}, ()),
    "http-head": Case(
        head,
        lambda: b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        {"fields": lambda: b"GET / HTTP/1.1\r\nhost: a\r\n" + b"a:\r\n" * 16_000 + b"\r\n"},
        {
            "longer": lambda: b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 17_000,
            "one line": lambda: b"GET /" + b"a" * 66_000,
            "spaces": lambda: b"GET / HTTP/1.1\r\na:" + b" " * 60_000 + b"\x00\r\n\r\n",
        },
        (h11.RemoteProtocolError,),
    ),
}
