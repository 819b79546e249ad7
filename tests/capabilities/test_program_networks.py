"""Hosts of a confined program: read as allowlist entries, and refused if a proxy cannot enforce them."""

from __future__ import annotations

from typing import Any

import pytest

from wasmrt.capabilities import EndpointPattern, program_network_line, read_program_network
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES


def test_a_host_is_read_from_its_name_or_from_an_entry() -> None:
    found = read_program_network(["a.org", {"host": "*.b.org", "port": 8443}, {"any_public_host": True}])
    assert found == (
        EndpointPattern("a.org"),
        EndpointPattern("*.b.org", ports=(8443,)),
        EndpointPattern.any_public_host(),
    )
    assert read_program_network(()) == ()
    most = [f"h{n}.org" for n in range(MAX_CAPABILITY_ENTRIES)]
    assert len(read_program_network(most)) == MAX_CAPABILITY_ENTRIES


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("a.org", '"network" must be a list of up to 256 hosts', "write it like network ="),
        ({"host": "a.org"}, '"network" must be a list of up to 256 hosts', "write it like network ="),
        (["a.org"] * 257, '"network" must be a list of up to 256 hosts', "write it like network ="),
        ([7], r"network\[0\]: ", "write it like network ="),
        (["a.org", {"hots": "b.org", "hosst": "c.org"}], r"network\[1\].+hots", "write it like network ="),
        (["*"], r"network\[0\].host: host '\*': .+ only allowed as .+any_public_host", "write it like network ="),
        (["a.org", "nowhere.org", "x_y z"], r"network\[2\].host: invalid host", "write it like network ="),
        (
            ["a.org", {"host": "a.org", "any_public_host": True}],
            r"network\[1\]: an entry must have either",
            "keep one",
        ),
        ([{"port": 8443}], r"network\[0\].host: is missing", "write it like network ="),
        ([{"host": "a.org", "path": "/v1"}], r"network\[0\]: path cannot be enforced for https", "remove path"),
        ([{"host": "a.org", "path_prefix": "/v1/"}], "path_prefix cannot be enforced for https", "remove path_prefix"),
        ([{"host": "a.org", "methods": ["GET"]}], "methods cannot be enforced for https", 'scheme = "http"'),
        (
            [{"host": "a.org", "methods": ["GET"], "schemes": ["http", "https"]}],
            "methods cannot be enforced",
            "grant only http",
        ),
    ],
)
def test_an_invalid_or_unenforceable_entry_is_refused_with_its_path(value: Any, message: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_program_network(value)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("a.org", "a.org (https on port 443, every path and method: TLS hides them)"),
        ({"any_public_host": True}, "every public host (https on port 443, every path and method: TLS hides them)"),
        ({"host": "a.org", "scheme": "http"}, "a.org (http on port 80, every path, every method)"),
        (
            {"host": "a.org", "scheme": "http", "path": "/v1/x", "methods": ["GET", "HEAD"], "ports": [80, 8080]},
            "a.org (http on port 80, 8080, /v1/x (this path only), GET, HEAD)",
        ),
        (
            {"host": "a.org", "scheme": "http", "path_prefix": "/v1/"},
            "a.org (http on port 80, /v1/ and below, every method)",
        ),
        (
            {"host": "a.org", "schemes": ["http", "https"]},
            "a.org (https on port 443, every path and method: TLS hides them; http on port 80, every path, every "
            "method)",
        ),
    ],
)
def test_the_network_of_a_program_is_described(entry: Any, words: str) -> None:
    assert program_network_line(*read_program_network([entry])) == words
