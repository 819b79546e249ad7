"""Every setting that a hint names exists, and hints name settings only with the command that changes them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import wasmrt
from wasmrt.agent.config import SETTINGS
from wasmrt.core.settings import find_setting

_PROSE = re.compile(
    r"(?:in|under|below) \[(?:tools|presets|approvals|shell|network|audit|memory|rates|desktop|skills)\b"
)


def test_every_setting_in_a_hint_exists() -> None:
    named = []
    for source in sorted(Path(wasmrt.__file__).parent.rglob("*.py")):
        text = source.read_text()
        for node in ast.walk(ast.parse(text)) if "wasmrt.core.setting_commands import" in text else ():
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if called in ("set_command", "append_command", "unset_command"):
                key = _key_of(node.args[0])  # type: ignore[attr-defined]
                named.append(key)
                setting = find_setting(SETTINGS, tuple(key.split(".")))
                assert called != "append_command" or isinstance(setting.example, list), key
        if source.name not in ("setting_commands.py", "config.py", "root.py"):
            literals = re.findall(r"wasmrt config (?:set|unset)", text)
            assert not literals, f"{source}: name settings with set_command"
    assert len(named) > 30


def _key_of(node: ast.expr) -> str:
    """Return the key that an argument is; a variable part has one of its values."""
    if isinstance(node, ast.JoinedStr):
        values = {"section": "extensions", "window": "minute", "key": "requests_per_minute"}
        parts = [p.value if isinstance(p, ast.Constant) else values[ast.unparse(p.value)] for p in node.values]  # type: ignore[attr-defined]
        return "".join(parts)
    if ast.unparse(node) == "setting.key":
        return SETTINGS[0].key
    assert isinstance(node, ast.Constant), ast.unparse(node)
    return str(node.value)


def test_no_hint_names_a_section_instead_of_a_command() -> None:
    found = []
    for source in sorted(Path(wasmrt.__file__).parent.rglob("*.py")):
        text = source.read_text()
        for node in ast.walk(ast.parse(text)) if _PROSE.search(text) else ():
            texts: list[ast.AST] = [node] if isinstance(node, ast.keyword) and node.arg == "hint" else []
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("hint", "steps", "_HINT"):
                texts.append(node)
            found += [f"{source.name}: {ast.unparse(each)}" for each in texts if _PROSE.search(ast.unparse(each))]
    assert not found
