"""Wrap the body of an attack in the text of a `near:agent@0.3.0` tool component.

The body can use the memory, `$ok`, `$say` and the imports that it names. The memory is in a separate module, so that
imports can be lowered before the attacking module is instantiated and its start function runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from wasmrt.authoring.testing.attacks._imports import BLOCKS, DROPS, FUNCTIONS

ANSWER_AT = 64
"""Address of the response record: two options of a string, 12 bytes each."""
TEXT_AT = 1024
"""Address of an attack's `text` in memory."""
SITE = "site.example.com"
"""Host name of the hostile server."""
FREE_AT = 65536
"""Memory from here on belongs to the allocator."""

_REALLOC = """
      (if (i32.eqz (local.get $size)) (then (return (i32.const 8))))
      (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
      (global.set $top (i32.add (local.get $at) (local.get $size)))
      (if (i32.gt_u (global.get $top) (i32.mul (memory.size) (i32.const 65536)))
        (then (if (i32.eq (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get $size) (i32.const 16))))
            (i32.const -1)) (then (unreachable)))))
      (if (local.get $old) (then (memory.copy (local.get $at) (local.get $from) (local.get $old))))
      (local.get $at)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The hostile parts of a tool; parts that are not set behave correctly.

    `execute` may use `$params` and `$length`, and must return the address of a response, such as `(call $ok)`.
    """

    execute: str = "(call $ok)"
    imports: tuple[str, ...] = ()
    text: bytes = b""
    locals: str = ""
    functions: str = ""
    start: str = ""
    realloc: str = _REALLOC
    post_return: str = ""
    description: str = "(call $text-result)"
    schema: str = "(call $text-result)"
    pages: int = 2
    more_modules: str = ""
    """Additional core modules and instances; `more_exports` passes their exports to the attacking module."""
    more_exports: str = ""
    more_imports: str = ""


def create_requesting_body(scheme: str, port: int, whole_bytes: int = 0) -> Body:
    """Return a tool that sends a request to `SITE`, and traps if the response has at least `whole_bytes` bytes."""
    url = f"{scheme}://{SITE}:{port}/".encode()
    return Body(
        imports=("http-request",),
        text=b"GET{}" + url,
        execute=f"""(call $http-request (i32.const {TEXT_AT}) (i32.const 3)
          (i32.const {TEXT_AT + 5}) (i32.const {len(url)}) (i32.const {TEXT_AT + 3}) (i32.const 2)
          (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))
        (if (i32.eqz (i32.load8_u (i32.const 256)))
          (then (if (i32.ge_u (i32.load (i32.const 276)) (i32.const {whole_bytes})) (then (unreachable)))))
        (call $ok)""",
    )


def tool(body: Body) -> str:
    """Return the text of a complete tool component with `body`."""
    return f"""(component
  {_write_blocks(body.imports)}
  (core module $libc
    (memory (export "memory") {body.pages})
    (global $top (mut i32) (i32.const {FREE_AT}))
    (func (export "realloc") (param $from i32) (param $old i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32){body.realloc}))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
  {body.more_modules}
  {_lower(body.imports, body.more_exports)}
  {_write_module(body)}
  (core instance $main (instantiate $main (with "libc" (instance $libc)) (with "host" (instance $lowered))))
  {_lift(bool(body.post_return))})"""


def _write_blocks(imports: tuple[str, ...]) -> str:
    wanted: list[str] = []

    def add(block: str) -> None:
        needs, _ = BLOCKS[block]
        for need in needs:
            add(need)
        if block not in wanted:
            wanted.append(block)

    for name in imports:
        add(FUNCTIONS[name][0] if name in FUNCTIONS else DROPS[name][0])
    return "\n  ".join(BLOCKS[block][1] for block in wanted)


def _lower(imports: tuple[str, ...], more_exports: str) -> str:
    lines: list[str] = []
    exports = [more_exports]
    for name in imports:
        if name in FUNCTIONS:
            _, instance, function, _ = FUNCTIONS[name]
            lines.append(
                f'(alias export {instance} "{function}" (func ${name}))'
                f"(core func $core-{name} (canon lower (func ${name}) (memory $memory) (realloc $realloc)))"
            )
        else:
            lines.append(f"(core func $core-{name} (canon resource.drop {DROPS[name][1]}))")
        exports.append(f'(export "{name}" (func $core-{name}))')
    return "\n  ".join([*lines, f"(core instance $lowered {' '.join(exports)})"])


def _write_module(body: Body) -> str:
    imports = "\n    ".join(
        f'(import "host" "{name}" (func ${name} {FUNCTIONS[name][3] if name in FUNCTIONS else "(param i32)"}))'
        for name in body.imports
    )
    data = "".join(f"\\{byte:02x}" for byte in body.text)
    return f"""(core module $main
    (import "libc" "memory" (memory 1))
    (import "libc" "realloc" (func $realloc (param i32 i32 i32 i32) (result i32)))
    {imports}
    {body.more_imports}
    (data (i32.const 512) "{{\\22ok\\22:true}}")
    (data (i32.const {TEXT_AT}) "{data}")
    (func $ok (result i32) (call $say (i32.const 512) (i32.const 11)))
    (func $say (param $at i32) (param $length i32) (result i32)
      (i32.store (i32.const {ANSWER_AT}) (i32.const 1))
      (i32.store (i32.const {ANSWER_AT + 4}) (local.get $at))
      (i32.store (i32.const {ANSWER_AT + 8}) (local.get $length))
      (i32.store (i32.const {ANSWER_AT + 12}) (i32.const 0))
      (i32.const {ANSWER_AT}))
    (func $fail (param $at i32) (param $length i32) (result i32)
      (i32.store (i32.const {ANSWER_AT}) (i32.const 0))
      (i32.store (i32.const {ANSWER_AT + 12}) (i32.const 1))
      (i32.store (i32.const {ANSWER_AT + 16}) (local.get $at))
      (i32.store (i32.const {ANSWER_AT + 20}) (local.get $length))
      (i32.const {ANSWER_AT}))
    (func $text-result (result i32)
      (i32.store (i32.const 128) (i32.const 512))
      (i32.store (i32.const 132) (i32.const 11))
      (i32.const 128))
    {body.functions}
    (func (export "execute") (param $params i32) (param $length i32) (param i32 i32 i32) (result i32)
      (local $i i32) (local $j i32) (local $n i64) {body.locals}
      {body.execute})
    (func (export "schema") (result i32) {body.schema})
    (func (export "description") (result i32) {body.description})
    (func (export "done") (param i32) {body.post_return})
    {f"(func $start {body.start}) (start $start)" if body.start else ""})"""


def _lift(post_return: bool) -> str:
    after = '(post-return (core func $main "done"))' if post_return else ""
    return f"""(type $request (record (field "params" string) (field "context" (option string))))
  (type $response (record (field "output" (option string)) (field "error" (option string))))
  (func $execute (param "req" $request) (result $response)
    (canon lift (core func $main "execute") (memory $memory) (realloc $realloc) {after}))
  (func $schema (result string) (canon lift (core func $main "schema") (memory $memory) (realloc $realloc)))
  (func $description (result string)
    (canon lift (core func $main "description") (memory $memory) (realloc $realloc)))
  (component $shape
    (type $request' (record (field "params" string) (field "context" (option string))))
    (import "request" (type $request (eq $request')))
    (type $response' (record (field "output" (option string)) (field "error" (option string))))
    (import "response" (type $response (eq $response')))
    (import "run" (func $run (param "req" $request) (result $response)))
    (import "schema-of" (func $schema (result string)))
    (import "description-of" (func $description (result string)))
    (export $request-out "request" (type $request))
    (export $response-out "response" (type $response))
    (export "execute" (func $run) (func (param "req" $request-out) (result $response-out)))
    (export "schema" (func $schema))
    (export "description" (func $description)))
  (instance $tool (instantiate $shape
    (with "request" (type $request)) (with "response" (type $response))
    (with "run" (func $execute)) (with "schema-of" (func $schema)) (with "description-of" (func $description))))
  (export "near:agent/tool@0.3.0" (instance $tool))"""
