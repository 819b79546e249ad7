"""Generated components: made by `wasm-tools smith` and `wit-smith`, mutated by `wasm-tools mutate` and byte by byte.

The component of a seed and a number is always the same, with one version of wasm-tools.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import wasmrt
from tests.sandbox.guests.build import ROOT
from wasmrt.authoring.project import find_wasm_tools

STEP_SECONDS = 20
_WORLDS = {path.parent.relative_to(ROOT / "wit").as_posix(): path.parent for path in (ROOT / "wit").rglob("tool.wit")}
_TEXTS = ("echo", "counter", "host")
# Features that the engine disables; one module in ten has them.
_OFF = (
    "gc", "reference-types", "exceptions", "custom-descriptors", "custom-page-sizes", "compact-imports", "memory64",
    "threads", "shared-everything-threads", "wide-arithmetic",
)  # fmt: skip
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """One component, and the recipe to generate it again."""

    recipe: str
    data: bytes


class NotMadeError(Exception):
    """The tools could not generate a component from this seed, which happens sometimes."""


class Generator:
    """Generates the components of one seed; `folder` is for the tools' input files."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self._folder = seed, folder
        self._path = find_wasm_tools().path
        self._shapes: dict[tuple[str, str], bytes] = {}
        self._ways: list[tuple[str, Callable[[Random], bytes]]]
        self._ways = [("smith", self._smith), ("wit-smith", self._world)]
        self._corpus = [self.make(-1 - number).data for number in range(16)]
        self._corpus.append((Path(wasmrt.__file__).parent / "catalog/shipped/echo.wasm").read_bytes())
        self._ways += [("mutate", self._mutated), ("bytes", self._bytes)]

    def make(self, number: int) -> Sample:
        """Return the component of a number."""
        dice = Random(f"{self.seed} {number}")
        for _ in range(_TRIES):
            name, way = dice.choice(self._ways)
            with contextlib.suppress(NotMadeError):
                return Sample(f"seed {self.seed}, number {number}: {name}", way(dice))
        raise AssertionError(f"wasm-tools made nothing in {_TRIES} tries")

    def _smith(self, dice: Random) -> bytes:
        """Generate a module with random bodies that matches a world, and its component."""
        world = dice.choice(sorted(_WORLDS))
        return self._component(self._module(dice, world), _WORLDS[world])

    def _mutated(self, dice: Random) -> bytes:
        """Mutate a module that matches a world, and build its component."""
        if dice.random() < 0.3:
            world, module = (
                "near-agent/0.3.0",
                (ROOT / f"tests/sandbox/guests/wat/{dice.choice(_TEXTS)}.wat").read_bytes(),
            )
        else:
            world = dice.choice(sorted(_WORLDS))
            module = self._module(dice, world)
        for _ in range(dice.randint(1, 3)):
            module = self._run(["mutate", "-s", str(dice.getrandbits(32))], module)
        return self._component(module, _WORLDS[world])

    def _world(self, dice: Random) -> bytes:
        """Generate a world with random interfaces, and a component for it that does nothing."""
        options = ["--arbitrary-config"] if dice.random() < 0.1 else []
        encoded, package = self._folder / "package.wasm", self._folder / "package.wit"
        encoded.write_bytes(self._run(["wit-smith", *options], dice.randbytes(dice.randint(50, 3000))))
        text = self._run(["component", "wit", encoded])
        # An attribute that the engine disables, and that nearly every package has.
        package.write_bytes(text if dice.random() < 0.1 else text.replace(b'@external-id("hi")', b""))
        wit = json.loads(self._run(["component", "wit", "--json", package]))
        worlds = [world for world in wit["worlds"] if world["exports"] or dice.random() < 0.1]
        names = [f"{wit['packages'][world['package']]['name'].partition('@')[0]}/{world['name']}" for world in worlds]
        if not names:
            raise NotMadeError
        naming = dice.choice(["legacy", "standard32"])
        command = ["component", "embed", package, "-w", dice.choice(names), "--dummy-names", naming]
        return self._run(["component", "new", "--validate=false"], self._run(command))

    def _bytes(self, dice: Random) -> bytes:
        """Change arbitrary bytes of a component, including lengths and names."""
        data = bytearray(dice.choice(self._corpus))
        for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
            at = dice.randrange(len(data) + 1)
            end = min(len(data), at + dice.choice((1, 1, 2, 5, 40, 400)))
            match dice.randrange(6):
                case 0 if at < len(data):
                    data[at] ^= 1 << dice.randrange(8)
                case 1 if at < len(data):
                    data[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
                case 2:
                    del data[at:end]
                case 3:
                    data[at:at] = data[at:end]
                case 4:
                    data[at:at] = dice.randbytes(dice.randint(1, 8))
                case _:
                    data[at:end] = b"\xff" * (end - at)
            data = data or bytearray(b"\0asm\x0d\0\x01\0")
        return bytes(data)

    def _module(self, dice: Random, world: str) -> bytes:
        options = [] if dice.random() < 0.1 else [f"--{name}-enabled=false" for name in _OFF]
        if dice.random() < 0.8:
            options.append("--ensure-termination")
        if dice.random() < 0.1:
            options.append("--allow-invalid-funcs=true")
        shape = self._folder / "shape.wasm"
        shape.write_bytes(self._shape(world, dice.choice(["legacy", "standard32"])))
        return self._run(["smith", "--module-shape", shape, *options], dice.randbytes(dice.randint(100, 8000)))

    def _shape(self, world: str, naming: str) -> bytes:
        if (world, naming) not in self._shapes:
            made = self._run(["component", "embed", _WORLDS[world], "--dummy-names", naming])
            self._shapes[world, naming] = made
        return self._shapes[world, naming]

    def _component(self, module: bytes, wit: Path) -> bytes:
        embedded = self._run(["component", "embed", wit, "-"], module)
        return self._run(["component", "new", "--validate=false", "-"], embedded)

    def _run(self, arguments: list[str | Path], given: bytes = b"") -> bytes:
        command, env = [self._path, *arguments], {"PATH": os.environ.get("PATH", os.defpath)}
        try:
            done = subprocess.run(command, input=given, capture_output=True, timeout=STEP_SECONDS, env=env, check=True)
        except subprocess.SubprocessError:
            raise NotMadeError from None
        return done.stdout
