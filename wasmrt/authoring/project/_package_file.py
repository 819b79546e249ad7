"""The package file of a project, wasmrt.toml: written by `new` for its author, and completed by each build.

A build writes the section `[built]` below a line of its own, and leaves all above that line as it is.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from wasmrt.catalog.package import read_package_file
from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import BuildError, ManifestError
from wasmrt.core.files import replace_file

_LINE = "# Written by wasmrt build: leave this line and all below it to the next build."
_NEW = """\
# The package: wasmrt build completes this file, wasmrt pack makes an archive of it.
name = {name}
language = {language}       # what wasmrt build makes it from
version = "0.1.0"
description = "Tells how warm it is at a place."
license = ""            # an SPDX expression, such as "MIT OR Apache-2.0"
source = ""             # where its source is, such as an https address
files = ["README.md"]   # what else goes into an archive
"""
_MAX_DESCRIPTION_CHARS = 200


class BuiltTool(NamedTuple):
    """One tool of a component that was built."""

    name: str
    description: str


def new_package_file(name: str, language: str) -> str:
    """Return the package file of a new project."""
    return _NEW.format(name=json.dumps(name), language=json.dumps(language))


def authors_part(text: str) -> str:
    """Return what a package file holds above the line from which on it is the build's."""
    return text.partition(_LINE)[0].rstrip()


def complete_package_file(path: Path, world: str, tools: Iterable[BuiltTool], files: Mapping[str, bytes]) -> None:
    """Write what a build made into a package file: its world, its tools, and the digest of each file.

    Raises:
        BuildError: the file cannot be read or written, or has a section `[built]` of its author's.
    """
    try:
        before = path.read_bytes().decode()
        text = f"{authors_part(before)}\n\n{_built(world, tools, files)}"
        read_package_file(text.encode())
        if text != before:
            replace_file(path, text.encode(), mode=None, durable=False)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise BuildError(f"{path.name} cannot be completed ({reason})", hint="check the file") from None
    except ManifestError as error:
        raise BuildError(
            f"{path.name} cannot be completed: {error.message}", hint="a section [built] there is the build's own"
        ) from None


def _built(world: str, tools: Iterable[BuiltTool], files: Mapping[str, bytes]) -> str:
    lines = [_LINE, "[built]", f"world = {_text(world)}"]
    lines += ["", "[built.digests]         # BLAKE3"]
    lines += [f"{_text(name)} = {_text(digest_of(data))}" for name, data in sorted(files.items())]
    for tool in tools:
        about = " ".join(tool.description.split())[:_MAX_DESCRIPTION_CHARS]
        lines += ["", "[[built.tools]]", f"name = {_text(tool.name)}", f"description = {_text(about)}"]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Return a TOML basic string (TOML 1.0): JSON's, and DEL escaped as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
