"""A program's network settings, and the errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.gateway import NetworkConfig


@pytest.mark.parametrize("networks", ["10.0.0.0/8", b"10.0.0.0/8", {"10.0.0.0/8": 1}, None, 10, (10,), (None,)])
def test_networks_must_be_a_list_and_are_not_iterated_otherwise(networks: object) -> None:
    with pytest.raises(ConfigurationError, match="unsafe_allowed_networks") as caught:
        NetworkConfig(unsafe_allowed_networks=networks)  # type: ignore[arg-type]
    assert "10.1.0.0/16" in str(caught.value.hint)


def test_a_missing_ca_file_is_refused_before_the_first_request(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.pem", tmp_path):
        with pytest.raises(ConfigurationError, match="ca_file") as caught:
            NetworkConfig(ca_file=path)
        assert str(path) in caught.value.message


def test_help_describes_every_network_field() -> None:
    for name in NetworkConfig.__dataclass_fields__:
        assert f"{name}: " in str(NetworkConfig.__doc__)
