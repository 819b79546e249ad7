"""Limits of media blocks in an answer."""

from __future__ import annotations

from typing import Any

import pytest

from wasmrt.agent.registry._output import MAX_MEDIA_BYTES, split_media

DATA = "A" * (MAX_MEDIA_BYTES // 2)


def image() -> dict[str, Any]:
    return {"type": "image", "mimeType": "image/png", "data": DATA}


def resource(**content: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "note:one", "mimeType": "text/plain"} | content}


@pytest.mark.parametrize("block", [image(), resource(blob=DATA), resource(text=DATA)], ids=["image", "blob", "text"])
def test_all_blocks_of_an_answer_share_one_size_limit(block: dict[str, Any]) -> None:
    assert split_media({"content": [block]}, str) is not None
    assert split_media({"content": [block, block, block]}, str) is None
