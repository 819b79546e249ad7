"""Images, sounds, resources and links in a tool's result, as the Model Context Protocol has them.

A tool answers with them by an object that has `content`, a list of blocks, and nothing else. A model's text gets the
texts of the blocks and a line for each of the others; the blocks themselves are for clients that can show them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from wasmrt.core.limits import MIB

MAX_BLOCKS = 64
MAX_MEDIA_BYTES = 4 * MIB
"""Of all blocks of a result, in base64."""
_TYPE = re.compile(r"[a-z]+/[a-zA-Z0-9][a-zA-Z0-9.+-]{0,100}")
_URI = re.compile(r"[a-z][a-z0-9+.-]{0,30}:[\x21-\x7e]{1,2000}")
_LINKED = re.compile(r"https?:", re.IGNORECASE)
Clean = Callable[[str], str]
Block = dict[str, Any]


def split_media(result: Any, clean: Clean) -> tuple[str, tuple[Block, ...]] | None:
    """Return the text of a result of blocks, and the blocks beside it; None for a result that is none.

    `clean` makes a text fit to read. A block that is broken or over the bounds makes the whole an ordinary result.
    """
    blocks = result.get("content") if isinstance(result, dict) and len(result) == 1 else None
    if not isinstance(blocks, list) or not 0 < len(blocks) <= MAX_BLOCKS:
        return None
    lines, kept, size = [], [], 0
    for block in blocks:
        read = _READERS[block["type"]](block, clean) if isinstance(block, dict) and _is_known(block) else None
        if read is None:
            return None
        line, media = read
        lines.append(line)
        if media is not None:
            kept.append(media)
            inside = media.get("resource", media)
            size += sum(len(value) for value in inside.values() if isinstance(value, str))
    return ("\n".join(lines), tuple(kept)) if size <= MAX_MEDIA_BYTES else None


def _is_known(block: dict[str, Any]) -> bool:
    return isinstance(block.get("type"), str) and block["type"] in _READERS


def _text(block: Block, _: Clean) -> tuple[str, Block | None] | None:
    return (block["text"], None) if isinstance(block.get("text"), str) else None


def _data(block: Block, _: Clean) -> tuple[str, Block | None] | None:
    kind, data = block.get("mimeType"), block.get("data")
    if not isinstance(kind, str) or not kind.startswith(f"{block['type']}/") or not _TYPE.fullmatch(kind):
        return None
    size = _decoded_size(data)
    if size is None:
        return None
    return f"[{kind}, {size} bytes]", {"type": block["type"], "data": data, "mimeType": kind}


def _link(block: Block, clean: Clean) -> tuple[str, Block | None] | None:
    uri, name = block.get("uri"), block.get("name")
    # SECURITY: a client may open it; what is a file or a program of its machine is nothing for a tool to point at.
    if not isinstance(uri, str) or not _URI.fullmatch(uri) or not _LINKED.match(uri) or not isinstance(name, str):
        return None
    link = {"type": "resource_link", "uri": uri, "name": clean(name)[:200]}
    if isinstance(block.get("description"), str):
        link["description"] = clean(block["description"])[:1000]
    if isinstance(block.get("mimeType"), str) and _TYPE.fullmatch(block["mimeType"]):
        link["mimeType"] = block["mimeType"]
    return f"[link to {uri}]", link


def _resource(block: Block, clean: Clean) -> tuple[str, Block | None] | None:
    inner = block.get("resource")
    uri = inner.get("uri") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(uri, str) or not _URI.fullmatch(uri):
        return None
    kind = inner.get("mimeType", "text/plain")
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        return None
    made: Block = {"uri": uri, "mimeType": kind}
    if isinstance(inner.get("text"), str):
        made["text"] = clean(inner["text"])
    elif _decoded_size(inner.get("blob")) is not None:
        made["blob"] = inner["blob"]
    else:
        return None
    return f"[resource {uri}]", {"type": "resource", "resource": made}


def _decoded_size(data: Any) -> int | None:
    """Return the bytes that a text stands for in base64; None where it is none."""
    if not isinstance(data, str) or len(data) > MAX_MEDIA_BYTES:
        return None
    try:
        return len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return None


_READERS: dict[str, Callable[[Block, Clean], tuple[str, Block | None] | None]] = {
    "text": _text, "image": _data, "audio": _data, "resource_link": _link, "resource": _resource,
}  # fmt: skip
