"""The network of a page's Python blocks: every name resolves to a public address, and no byte leaves the process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from wasmrt.egress import WireRequest, WireResponse

_ADDRESS = "93.184.215.14"


class _Recorded:
    """A `Transport` that answers every request with the same JSON."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def send(self, request: WireRequest, addresses: tuple[str, ...], budget: Any) -> WireResponse:
        assert addresses == (_ADDRESS,)
        return WireResponse(200, ((b"content-type", b"application/json"),), _Body())

    def close(self) -> None:
        pass


class _Body:
    def __iter__(self) -> Iterator[bytes]:
        yield b'{"ok": true}'

    def close(self) -> None:
        pass


def fake_network(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Answer lookups and requests in this process, and put the files there that pages name."""
    monkeypatch.setattr("wasmrt.egress._client.Client", _Recorded)
    monkeypatch.setattr("wasmrt.egress.SystemResolver.resolve", lambda *_, **__: (_ADDRESS,))
    trustme.CA().cert_pem.write_to_path(str(folder / "my-ca.pem"))
