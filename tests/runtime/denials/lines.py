"""Read the line named by a denial, and write it into the file that it belongs to."""

from __future__ import annotations

import copy
import io
import json
import re
import shlex
import tomllib
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from wasmrt.agent.config import SETTINGS, OperatorConfig, read_config_file
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import parse
from wasmrt.cli.operate.config_text import read_value, value_at, with_setting, without_setting
from wasmrt.cli.shared.errors import fail
from wasmrt.core.errors import WasmrtError
from wasmrt.core.settings import find_setting, read_key

Tree = dict[str, Any]
_COMMAND = re.compile(r"wasmrt config (set|unset) ([^;,\n]+)")


def in_capability_file(document: Tree, step: str) -> Tree:
    """Return a capability file with the line named by a step."""
    new = copy.deepcopy(document)
    if added := re.search(r"add to (\w+\.\w+): (.+)$", step):
        section, name = added[1].split(".")
        held = new[section].setdefault(name, {} if name == "aliases" else [])
        if isinstance(held, list):
            held.append(json.loads(added[2]))
        else:
            held |= json.loads(f"{{{added[2]}}}")
    elif raised := re.search(r"(?:raise|increase) (\w+)\.([\w.]+)", step):
        now = re.search(r"now (\d+)", step)
        *path, last = raised[2].split(".")
        table = new[raised[1]]
        for key in path:
            table = table.setdefault(key, {})
        table[last] = 2 * int(now[1]) if now else 1_000_000
    elif inside := re.search(r'add to (\w+): ("\w+": .+)$', step):
        new[inside[1]] |= json.loads(f"{{{inside[2]}}}")
    else:
        line = re.search(r'add ("\w+": .+)$', step)
        assert line is not None, step
        new |= json.loads(f"{{{line[1]}}}")
    return new


def in_configuration(config: Tree, step: str, **named: str) -> Tree:
    """Return an operator's configuration after the command named by a step; `named` fills its placeholders."""
    found = _COMMAND.search(step)
    assert found is not None, step
    given = [named.get(word, word) for word in shlex.split(found[2])]
    text = "\n".join(_toml(config))
    if found[1] == "unset":
        return tomllib.loads(without_setting(text, read_key(given[0])))
    append = given[0] == "--append"
    path = read_key(given[append])
    value = given[append + 1]
    setting = find_setting(SETTINGS, path)
    if append:
        return tomllib.loads(with_setting(text, path, [*(value_at(config, path) or ()), value]))
    return tomllib.loads(with_setting(text, path, read_value(setting, value)))


def grant_of(document: Tree) -> Capabilities:
    return parse(json.dumps(document)).capabilities


def read_configuration(folder: Path, config: Tree) -> OperatorConfig:
    """Return an operator's configuration as read from a file."""
    file = folder / "config.toml"
    file.write_text("\n".join(_toml(config)))
    return read_config_file(file)


def said_to_a_person(error: WasmrtError) -> str:
    """Return the text that the command line prints for an error."""
    with redirect_stderr(io.StringIO()) as printed:
        fail(error, as_json=False)
    return printed.getvalue()


def _toml(tree: Tree, *keys: str) -> list[str]:
    lines = []
    for key, value in tree.items():
        path = (*keys, json.dumps(key))
        lines += _toml(value, *path) if isinstance(value, dict) else [f"{'.'.join(path)} = {json.dumps(value)}"]
    return lines
