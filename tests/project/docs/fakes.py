"""Fakes for the code blocks of pages: a network without sockets, and the files that pages use."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.project.docs.pages import ROOT
from wasmrt.egress.gateway import WholeBody, WireRequest, WireResponse

_ADDRESS = "93.184.215.14"
_COMPONENT = ROOT / "wasmrt" / "catalog" / "shipped" / "json.wasm"


class _Recorded:
    """A `Transport` that answers every request with the same JSON."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def send(self, request: WireRequest, addresses: tuple[str, ...], budget: Any) -> WireResponse:
        assert addresses == (_ADDRESS,)
        return WireResponse(200, ((b"content-type", b"application/json"),), WholeBody(b'{"ok": true}'))

    def close(self) -> None:
        pass


def fake_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve every name to one public address, and answer every request in this process."""
    monkeypatch.setattr("wasmrt.egress.gateway._client.Client", _Recorded)
    monkeypatch.setattr("wasmrt.egress.gateway.SystemResolver.resolve", lambda *_, **__: (_ADDRESS,))
    monkeypatch.setattr("wasmrt.egress.gateway.SystemResolver.for_user", lambda resolver, user: resolver)


def put_files(folder: Path) -> None:
    """Write the component, the capability file and the certificate authorities that pages use."""
    (folder / "build").mkdir()
    shutil.copy(_COMPONENT, folder / "build" / "weather.wasm")
    shutil.copy(_COMPONENT, folder / "search.wasm")
    (folder / "weather.capabilities.json").write_text('{"workspace": {"allowed_prefixes": ["weather/"]}}')
    trustme.CA().cert_pem.write_to_path(str(folder / "my-ca.pem"))
