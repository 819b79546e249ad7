"""Tool components with prepared results, in every tool world.

The answers lie in memory as the component model's canonical ABI has them; a function returns where.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import wasmtime

from tests.sandbox.border.relays import KINDS, LIBC

_BASE = 8192
"""The address of the first byte of the results, above the space for arguments."""


class Memory:
    """Bytes of a guest's memory, laid out from `_BASE` on."""

    def __init__(self) -> None:
        self.data = b""

    def put(self, data: bytes) -> int:
        """Store bytes, aligned to eight, and return their address."""
        self.data += bytes(-len(self.data) % 8)
        at = _BASE + len(self.data)
        self.data += data
        return at

    def string(self, text: str) -> bytes:
        """A string's two words."""
        return struct.pack("<II", self.put(text.encode()), len(text.encode()))

    def optional(self, text: str | None) -> bytes:
        """An optional string's three words."""
        return bytes(12) if text is None else struct.pack("<I", 1) + self.string(text)

    def text(self) -> str:
        """The data segment."""
        escaped = "".join(f"\\{byte:02x}" for byte in self.data)
        return f'(data (i32.const {_BASE}) "{escaped}")'


@dataclass(frozen=True, slots=True)
class Failure:
    """A tool's typed failure."""

    kind: str
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool in a provider's list."""

    name: str
    description: str = "a tool"
    schema: str = '{"type": "object"}'
    annotations: tuple[bool, bool, bool] = (False, False, False)


_EXECUTE_PARAMS = "i32 i32 i32 i32 i32"
_REQUEST = '(record (field "params" string) (field "context" (option string)))'
_KIND = "(enum " + " ".join(f'"{kind}"' for kind in KINDS) + ")"


@dataclass(kw_only=True)
class _World:
    """An exported interface: named types in order, functions with their WIT type and core parameters."""

    interface: str
    types: dict[str, str]
    functions: dict[str, tuple[str, str]]
    bodies: dict[str, str]
    memory: Memory = field(default_factory=Memory)

    def component(self) -> bytes:
        core, lifted, wanted, given, shown = [], [], [], [], []
        for name, (kind, params) in self.functions.items():
            core.append(f'(func (export "{name}") (param {params}) (result i32) {self.bodies[name]})')
            options = "(memory $memory) (realloc $realloc)"
            lifted.append(f'(func ${name} {kind} (canon lift (core func $main "{name}") {options}))')
            wanted.append(f'(import "{name}-of" (func ${name} {kind}))')
            given.append(f'(with "{name}-of" (func ${name}))')
            shown.append(f'(export "{name}" (func ${name}) (func {self._outside(kind)}))')
        imported = [f"(type ${n}' {t}) (import \"{n}-of\" (type ${n} (eq ${n}')))" for n, t in self.types.items()]
        exported = [
            f'(type ${n}-new {self._outside(t)}) (export ${n}-out "{n}" (type ${n}) (type (eq ${n}-new)))'
            for n, t in self.types.items()
        ]
        return bytes(
            wasmtime.wat2wasm(f"""(component
  {LIBC.replace('"memory") 2', f'"memory") {2 + (_BASE + len(self.memory.data)) // 65536}')}
  (core module $main (import "libc" "memory" (memory 1)) {self.memory.text()} {" ".join(core)})
  (core instance $main (instantiate $main (with "libc" (instance $libc))))
  {" ".join(f"(type ${name} {text})" for name, text in self.types.items())}
  {" ".join(lifted)}
  (component $shape {" ".join(imported)} {" ".join(wanted)} {" ".join(exported)} {" ".join(shown)})
  (instance $world (instantiate $shape
    {" ".join(f'(with "{name}-of" (type ${name}))' for name in self.types)} {" ".join(given)}))
  (export "{self.interface}" (instance $world)))""")
        )

    def _outside(self, text: str) -> str:
        """A type in terms of the exported types, each of which has its own name."""
        return re.sub(r"\$([a-z]+)", r"$\1-out", text)


def agent_tool(
    version: str,
    answer: str | Failure | tuple[str | None, str | None],
    *,
    description: str = "a tool",
    schema: str = '{"type": "object"}',
    leave_out: str = "",
) -> bytes:
    """A tool of near:agent; `answer` is the output, a typed failure (0.4.1), or output and error (before it)."""
    memory = Memory()
    typed = version == "@0.4.1"
    if isinstance(answer, Failure):
        words = memory.optional(answer.code) + memory.optional(answer.message)
        response = struct.pack("<II", 1, KINDS.index(answer.kind)) + words
    elif typed:
        assert isinstance(answer, str)
        response = struct.pack("<I", 0) + memory.string(answer)
    else:
        output, error = (answer, None) if isinstance(answer, str) else answer
        response = memory.optional(output) + memory.optional(error)
    types = {"kind": _KIND, "failure": '(record (field "kind" $kind) (field "code" (option string)) '}
    types["failure"] += '(field "message" (option string)))'
    plain = '(record (field "output" (option string)) (field "error" (option string)))'
    variant = '(variant (case "success" string) (case "failure" $failure))'
    world = _World(
        interface=f"near:agent/tool{version}",
        types={**(types if typed else {}), "request": _REQUEST, "response": variant if typed else plain},
        functions={
            "execute": ('(param "req" $request) (result $response)', _EXECUTE_PARAMS),
            "schema": ("(result string)", ""),
            "description": ("(result string)", ""),
        },
        bodies={
            "execute": f"(i32.const {memory.put(response)})",
            "schema": f"(i32.const {memory.put(memory.string(schema))})",
            "description": f"(i32.const {memory.put(memory.string(description))})",
        },
        memory=memory,
    )
    world.functions.pop(leave_out, None)
    return world.component()


def provider(offers: Sequence[Offer], answer: str | Failure = "{}", *, annotations: str = "bool") -> bytes:
    """A component of wasmrt:tool; every tool answers alike. Of another type than the world's with `annotations`."""
    memory = Memory()
    offered = b""
    for offer in offers:
        words = memory.string(offer.name) + memory.string(offer.description) + memory.string(offer.schema)
        offered += words + bytes(offer.annotations) + bytes(1)
    described = struct.pack("<II", memory.put(offered), len(offers))
    if isinstance(answer, Failure):
        said = memory.string(answer.message or "")
        result = struct.pack("<II", 1, KINDS.index(answer.kind)) + memory.optional(answer.code) + said
    else:
        result = struct.pack("<I", 0) + memory.string(answer)
    return _World(
        interface="wasmrt:tool/provider@0.1.0",
        types={
            "kind": _KIND,
            "failure": '(record (field "kind" $kind) (field "code" (option string)) (field "message" string))',
            "annotations": f'(record (field "read-only" {annotations}) (field "destructive" bool) '
            '(field "network" bool))',
            "tool": '(record (field "name" string) (field "description" string) (field "schema" string) '
            '(field "annotations" $annotations))',
        },
        functions={
            "describe": ("(result (list $tool))", ""),
            "call": (
                '(param "name" string) (param "params" string) (param "context" (option string)) '
                "(result (result string (error $failure)))",
                "i32 i32 i32 i32 i32 i32 i32",
            ),
        },
        bodies={
            "describe": f"(i32.const {memory.put(described)})",
            "call": f"(i32.const {memory.put(result)})",
        },
        memory=memory,
    ).component()


def failing_function(failure: str, words: Callable[[Memory], bytes]) -> bytes:
    """A component of a foreign world, whose function fails with a value of the type `failure`."""
    kind = "(result string (error $failure))"
    return plain_function({"failure": failure}, kind, lambda memory: struct.pack("<I", 1) + words(memory))


def plain_function(types: dict[str, str], kind: str, words: Callable[[Memory], bytes]) -> bytes:
    """A component of a foreign world, whose function returns a value of the type `kind`, in memory."""
    memory = Memory()
    answer = words(memory)
    return _World(
        interface="test:plain/functions@1.0.0",
        types=types,
        functions={"run": (f"(result {kind})", "")},
        bodies={"run": f"(i32.const {memory.put(answer)})"},
        memory=memory,
    ).component()
