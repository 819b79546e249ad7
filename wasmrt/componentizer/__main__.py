"""python -m wasmrt.componentizer CORE.wasm WORLD.wit OUT.wasm"""

from __future__ import annotations

import sys
from pathlib import Path

from wasmrt.componentizer import componentize
from wasmrt.errors import WasmrtError
from wasmrt.guest.engine import wat2wasm


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    core, wit, out = map(Path, arguments)
    try:
        made = componentize(core.read_bytes(), wit.read_text(), assemble=wat2wasm)
    except WasmrtError as error:
        print(f"componentizer: {error}", file=sys.stderr)
        return 1
    out.write_bytes(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
