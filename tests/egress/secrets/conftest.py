from __future__ import annotations

import pytest

import wasmrt.egress.secrets._file as secrets_file


@pytest.fixture
def cheap_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make scrypt fast; one test uses the real cost."""
    monkeypatch.setattr(secrets_file, "_SCRYPT_N", 16)
