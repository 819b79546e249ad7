"""A package whose schema is costly: installing it and running it with hostile params delays no other thread."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.project.c_call_cases import LATE_MS, ticks
from wasmrt.catalog.bundled import FOLDER
from wasmrt.cli import cli
from wasmrt.core.limits import MAX_PARAMS_BYTES

SCHEMA_BYTES = 50_000
MANIFEST = """
name = "parrot"
version = "1.0"
description = "Says it again."
license = "MIT"
source = "https://example.com/parrot"

[[tools]]
name = "echo"
description = "Say it again."
input = "schemas/say.json"
"""
Schema = dict[str, Any]


def many(part: Callable[[int], object]) -> list[Any]:
    """Return as many parts as a schema of about 50 KB has."""
    return [part(n) for n in range(SCHEMA_BYTES // (len(json.dumps(part(10_000))) + 2))]


def each(schema: Schema) -> Schema:
    return {"type": "object", "properties": {"x": {"type": "array", "items": schema}}}


def chain() -> Schema:
    length = len(many(lambda n: {f"d{n}": {"$ref": f"#/$defs/d{n}"}}))
    links: Schema = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return each({"$ref": "#/$defs/d0"}) | {"$defs": links | {f"d{length}": {"type": "string"}}}


def doubling() -> Schema:
    parts: Schema = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    return each({"$ref": "#/$defs/d0"}) | {"$defs": parts | {"d40": {"const": 0}}}


def numbers(count: int) -> list[int]:
    return list(range(count))


CASES: dict[str, tuple[Schema, Any]] = {
    "choices": (each({"oneOf": many(lambda n: {"const": -n})}), numbers(20_000)),
    "accepted choices": (each({"anyOf": [{"oneOf": many(lambda n: {"const": -n})}, {}]}), numbers(100_000)),
    "enum": (each({"enum": many(lambda n: n + 0.5)}), numbers(100_000)),
    "patterns": (each({"anyOf": many(lambda n: {"pattern": f"(a|b)*c{n}"})}), ["ab" * 50_000] * 8),
    "a large pattern": (each({"pattern": "|".join(many(lambda n: f"(a|b)a{n}"))}), ["ab" * 500_000]),
    "a large automaton": (each({"pattern": "(?:a|b)*a(?:a|b){900}c" * 20}), ["ab" * 500_000]),
    "unique numbers": ({"properties": {"x": {"uniqueItems": True}}}, [10**400 + n for n in range(9_000)]),
    "unique objects": ({"properties": {"x": {"uniqueItems": True}}}, [{"a": n} for n in range(90_000)]),
    "a chain of references": (chain(), ["a"] * 100_000),
    "references that double": (doubling(), numbers(10_000)),
    "properties": (each({"patternProperties": {f"^k{n}x": {} for n in numbers(3_000)}}), [{"a": 1}] * 50_000),
}


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], prog_name="wasmrt")


def run_with_other_thread(*arguments: str | Path) -> Result:
    """Run a command, and assert that another thread never waits long; the best of three: it also waits for other load.

    The wait is processor time of this process.
    """
    waits = []
    for _ in range(3):
        with ticks(time.CLOCK_PROCESS_CPUTIME_ID) as gaps:
            result = invoke(*arguments)
        waits.append(1000 * max(gaps))
        if waits[-1] <= LATE_MS:
            return result
    raise AssertionError(f"another thread waited {min(waits):.0f} ms")


@pytest.mark.ci("slow")
@pytest.mark.parametrize("name", CASES)
def test_hostile_schema_with_hostile_params_is_refused_and_delays_no_other_thread(name: str, tmp_path: Path) -> None:
    schema, value = CASES[name]
    folder, params = tmp_path / "own", tmp_path / "params.json"
    (folder / "schemas").mkdir(parents=True)
    (folder / "wasmrt.toml").write_text(MANIFEST)
    (folder / "parrot.wasm").write_bytes((FOLDER / "echo.wasm").read_bytes())
    (folder / "schemas/say.json").write_text('{"type": "object"}')
    assert invoke("install", folder, "--yes").exit_code == 0  # also loads the modules
    (folder / "schemas/say.json").write_text(json.dumps(schema))
    params.write_text(json.dumps({"x": value}))
    assert params.stat().st_size <= MAX_PARAMS_BYTES

    installed = run_with_other_thread("install", folder, "--yes", "--json")
    if installed.exit_code:
        assert json.loads(installed.stderr)["code"] == "broken-schema"
        return
    refused = run_with_other_thread("run", "parrot", f"@{params}", "--json")
    assert (refused.exit_code, json.loads(refused.stderr)["code"]) == (2, "invalid-parameters")
