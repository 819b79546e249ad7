"""Files, definitions and public names on a page exist, and its terms are in the glossary."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import wasmrt
from tests.project.docs.pages import PAGES, ROOT, blocks, named, prose, spans

_FILE = re.compile(r"(?P<path>[\w.{}*-]*(?:/[\w.{}*-]*)+|[\w-]+\.(?:py|toml|md))(?::(?P<name>[A-Za-z_][\w.]*))?")
_HOMES = (ROOT, ROOT / "wasmrt")
_TOP = {path.name for home in _HOMES for path in home.iterdir()}
_GUIDES = [page for page in PAGES if "adr" not in page.parts]
_PUBLIC = re.compile(r"wasmrt(?!\.(?:toml|lock))(\.[A-Za-z_]\w*)+")


def _file_of(path: str) -> Path | None:
    return next((home / path for home in _HOMES if (home / path).exists()), None)


@cache
def _defined(file: Path) -> frozenset[str]:
    """Return the names that a file defines; names in classes as `Class.name`."""
    names: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    collect(ast.parse(file.read_text(encoding="utf-8")).body, "")
    return frozenset(names)


def _problem(span: str) -> str | None:
    match = _FILE.fullmatch(span)
    if match is None or not (match["path"].endswith(".py") or match["path"].partition("/")[0] in _TOP):
        return None
    file = _file_of(match["path"])
    if file is None:
        return "no such file"
    if match["name"] and match["name"] not in _defined(file):
        return "no such name in the file"
    return None


def _named_files(page: Path) -> Iterator[str]:
    drawings = (word for block in blocks(page) if block.language == "text" for word in block.text.split())
    return (name.rstrip(",") for name in (*spans(page), *(word for word in drawings if "/" in word)))


def test_the_files_and_names_on_a_page_exist() -> None:
    named_on = {(named(page), name) for page in _GUIDES for name in _named_files(page)}
    assert {(page, name, found) for page, name in named_on if (found := _problem(name)) is not None} == set()


def _can_be_imported(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_the_public_names_on_a_page_can_be_imported() -> None:
    public = {(named(page), span) for page in PAGES for span in spans(page) if _PUBLIC.fullmatch(span)}
    assert {(page, name) for page, name in public if not _can_be_imported(name)} == set()


def test_just_recipes_on_a_page_exist() -> None:
    recipes = set(re.findall(r"^([\w-]+)(?: [^:\n]*)?:(?!=)", (ROOT / "justfile").read_text(), re.MULTILINE))
    used = {(named(page), span) for page in PAGES for span in spans(page) if span.startswith("just ")}
    assert {(page, span) for page, span in used if span.split()[1] not in recipes} == set()


def test_an_unknown_file_or_name_is_detected() -> None:
    assert _problem("runtime/call/_call.py:run_call") is None
    assert _problem("runtime/call/_call.py:walk_call") is not None
    assert _problem("runtime/call/_calls.py") is not None
    assert _problem("no_such_module.py") is not None
    assert _problem("sandbox/guest/engines/") is not None


_REPLACED = {
    "door, doors": "gateway, or entrance",
    "room, rooms": "package",
    "powers": "capabilities",
    "judge, judges, judged, weigh, weighed": "check, validate, classify, score",
    "spare instance, shelf": "warm instance pool",
    "spool": "write-ahead journal",
    "sieve, sift, sifted": "prefilter",
    "gates": "keywords",
    "needle, needles": "patterns",
    "look-alike, look-alikes": "false positive",
    "blot out": "mask",
    "primed": "watched",
    "verdict": "report",
    "piecewise": "in parts",
    "plainly": "in plain text",
    "news": "counters",
}
"""Words that pages do not use, with their replacements."""


def test_a_page_does_not_use_replaced_words() -> None:
    replaced = {word: better for words, better in _REPLACED.items() for word in words.split(", ")}
    found = {}
    for page in _GUIDES:
        text = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", prose(page))
        used = (word for word in replaced if re.search(rf"\b{word}\b", text, re.IGNORECASE))
        found |= {(named(page), word): replaced[word] for word in used}
    assert found == {}


def test_imports_on_a_page_work_from_the_top_level_package() -> None:
    apart = ("testing", "adapters")  # adapters are imported from their module, because it imports the framework
    for page in _GUIDES:
        code = "\n".join(block.text for block in blocks(page) if block.language == "python")
        found = re.findall(r"^\s*from wasmrt\.([\w.]+) import (.+)$", code, re.MULTILINE)
        names = {name.strip() for home, names in found if home.split(".")[0] not in apart for name in names.split(",")}
        assert {name for name in names if not hasattr(wasmrt, name)} == set(), named(page)
