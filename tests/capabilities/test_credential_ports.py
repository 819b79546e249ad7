"""The ports of a credential without ports: derived once from the allowlist of its file, then stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wasmrt.capabilities import (
    Amendment,
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    for_tool,
    merge,
    revoke_from_grant,
    within_effects,
)
from wasmrt.capabilities.file import format_file
from wasmrt.capabilities.model import usual_ports
from wasmrt.capabilities.sentences import diff, explain
from wasmrt.core.effects import Effect
from wasmrt.core.url import parse_url

HOST = "api.example.com"
TOKEN = {"secret_name": "api", "location": {"type": "bearer"}, "host_patterns": [HOST]}


def http(*ports: int, **credential: Any) -> dict[str, Any]:
    entries = [{"host": HOST} | ({} if port == 443 else {"port": port}) for port in ports]
    return {"allowlist": entries, "credentials": {"api": TOKEN | credential}}


def read(section: dict[str, Any], **more: Any) -> Capabilities:
    return Capabilities.parse(json.dumps({"http": section} | more))


def sent(capabilities: Capabilities, host: str = HOST) -> list[int]:
    """Return the ports to which the secret is sent."""
    assert capabilities.http is not None
    urls = {port: parse_url(f"https://{host}:{port}/") for port in (443, 8443, 9443)}
    return [port for port, url in urls.items() if capabilities.http.list_credentials(url)]


@pytest.mark.parametrize(
    ("listed", "usual"), [((), 443), ((443,), 443), ((8443,), 8443), ((443, 8443), 443), ((8443, 9443), 443)]
)
def test_the_usual_port_is_443_or_the_only_listed_one(listed: tuple[int, ...], usual: int) -> None:
    granted = read(http(*listed))

    assert sent(granted) == [usual]
    assert "ports" not in json.loads(format_file(granted))["http"]["credentials"]["api"]
    assert Capabilities.parse(format_file(granted)) == granted


@pytest.mark.parametrize(("entry", "host"), [("*.a.org", "x.a.org"), ("x.a.org", "*.a.org"), ("a.org", "a.org")])
def test_an_entry_sets_the_port_for_all_its_hosts(entry: str, host: str) -> None:
    assert usual_ports((host,), (EndpointPattern(entry, ports=(8443,)),)) == (8443,)
    assert usual_ports((host,), (EndpointPattern("b.org", ports=(8443,)),)) == (443,)


def test_a_file_that_moves_a_secret_to_another_port_is_wider() -> None:
    changes = diff(read(http(443, 8443)), read(http(8443)))

    assert [change.section for change in changes.widened] == ["http.credentials"]
    assert "at port 8443" in changes.widened[0].sentence


def test_a_stored_narrower_grant_does_not_move_a_secret() -> None:
    other_port = {"host": HOST, "port": 8443}
    asked = read(http(443) | {"allowlist": [{"host": HOST, "methods": ["POST"]}, other_port | {"methods": ["GET"]}]})
    narrower = [
        merge(asked, read(http(8443, ports=[443]))),
        within_effects(asked, frozenset({Effect.NETWORK, Effect.USE_SECRET})),
        revoke_from_grant(asked, Amendment.read("http=POST api.example.com")),
    ]
    for grant in narrower:
        assert grant.http is not None and [entry.ports for entry in grant.http.allowlist] == [(8443,)]
        for kept in (grant, Capabilities.parse(format_file(grant))):
            assert 8443 not in sent(kept)
            assert diff(asked, kept).widened == ()


def test_a_tool_section_sends_a_secret_to_the_same_ports_as_its_component() -> None:
    granted = read(http(443, 8443), tools={"x": {"http": http(8443)}})

    assert sent(granted) == sent(for_tool(granted, "x")) == [443]
    assert Capabilities.parse(format_file(granted)) == granted


def test_hosts_of_one_credential_can_have_different_ports_unless_they_overlap() -> None:
    def granted(*entries: EndpointPattern) -> Capabilities:
        mapping = CredentialMapping(
            secret_name="api", location=CredentialLocation.bearer(), host_patterns=("a.org", "b.org")
        )
        return Capabilities.none().with_http(HttpCapability(entries, (mapping,)))

    apart = granted(EndpointPattern("a.org"), EndpointPattern("b.org", ports=(8443,)))
    assert sent(apart, "a.org") == sent(apart, "b.org") == [443, 8443]
    both = granted(EndpointPattern("a.org", ports=(443, 8443)), EndpointPattern("b.org", ports=(8443,)))
    assert sent(both, "a.org") == [443]


def test_a_secret_with_two_host_lists_is_merged_under_two_names() -> None:
    def asked(**hosts: list[str]) -> Capabilities:
        credentials = {name: TOKEN | {"host_patterns": each} for name, each in hosts.items()}
        return read({"allowlist": [{"host": "a.org"}, {"host": "b.org"}], "credentials": credentials})

    both = merge(asked(api=["a.org", "b.org"]), asked(one=["a.org"], two=["b.org"]))

    assert both.http is not None
    assert [(each.name, each.host_patterns) for each in both.http.credentials] == [
        ("api", ("a.org",)),
        ("api-2", ("b.org",)),
    ]
    assert Capabilities.parse(format_file(both)) == both


def test_the_sentences_name_the_ports_and_the_scheme_of_a_secret() -> None:
    entry = {"host": HOST, "ports": [80, 443, 8443], "schemes": ["https", "http"], "methods": ["GET"]}
    whole = read({"allowlist": [entry], "credentials": {"api": TOKEN | {"path_patterns": ["/v1/"]}}})
    assert any(
        "with your secret api in the Authorization header at port 443 under /v1/ "
        "(unencrypted requests that would carry it are refused)" in sentence
        for sentence in explain(whole)
    )
    assert not any(" at port " in sentence for sentence in explain(read(http(8443))))
