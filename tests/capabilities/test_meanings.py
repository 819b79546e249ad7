"""Explanations describe the effect of a grant for the user, without permissions that the runtime would refuse."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from tests.capabilities.capability_strategies import capabilities
from tests.tiers import examples
from wasmrt.capabilities import Capabilities, CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.sentences import ANYWHERE, diff, explain, explain_added, review
from wasmrt.capabilities.services import known_services, read_services
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.url import parse_networks


def granted(*entries: EndpointPattern, to: tuple[str, ...] = (), **more: object) -> Capabilities:
    """Return a grant with these entries, and a bearer credential for the hosts in `to`."""
    mapping = CredentialMapping(
        secret_name="key", location=CredentialLocation.bearer(), host_patterns=to or ("x.org",), **more
    )
    return Capabilities.none().with_http(HttpCapability(entries, (mapping,) if to else ()))


def said(grant: Capabilities, **known: object) -> str:
    return "\n".join(explain(grant, **known))


GITHUB = "api.github.com"
GMAIL = EndpointPattern.host("gmail.googleapis.com")


@pytest.mark.parametrize(
    ("entry", "told", "not_told"),
    [
        (
            GMAIL.with_path("/gmail/v1/users/me/messages/send").with_methods("POST"),
            "send mail as you",
            "read your mail",
        ),
        (GMAIL.with_path_prefix("/gmail/v1/users/me/messages").with_methods("GET"), "read your mail", "send mail"),
        (GMAIL, "change how your mail is filtered and forwarded", "pages"),
        (EndpointPattern.host("api.github.com").with_methods("PUT"), "change your repositories", "read your"),
        (EndpointPattern.host("b.s3.eu-west-1.amazonaws.com").with_methods("DELETE"), "delete files in your", "store"),
        (EndpointPattern.host("api.linear.app").with_path("/graphql"), "change the issues", "mail"),
        (EndpointPattern.host("api.notion.com").with_methods("PATCH"), "change and delete your pages", "search in"),
        (EndpointPattern.host("api.stripe.com").with_methods("POST"), "move money", "read your customers"),
    ],
)
def test_a_permission_at_a_known_service_depends_on_host_path_and_method(
    entry: EndpointPattern, told: str, not_told: str
) -> None:
    text = said(granted(entry, to=(entry.host_pattern,)))

    assert told in text
    assert not_told not in text


def test_changing_permissions_come_before_reading_ones() -> None:
    first, second, *_ = explain(
        granted(GMAIL.with_path_prefix("/gmail/v1/users/me/drafts"), GMAIL, to=(GMAIL.host_pattern,))
    )

    assert first.startswith("can ") and second.startswith("can ")
    assert "can read your mail (Gmail)" not in (first, second)


def test_no_permission_is_in_the_users_name_without_a_credential() -> None:
    text = said(granted(EndpointPattern.host("api.github.com")))

    assert "as you" not in text and "your repositories" not in text
    assert "can read public repositories and their issues (GitHub)" in text


def test_a_credential_for_one_host_grants_nothing_at_other_hosts() -> None:
    text = said(granted(EndpointPattern.host("*.googleapis.com"), to=("sheets.googleapis.com",)))

    assert "change your documents" in text
    assert "mail" not in text and "contacts" not in text


def test_at_an_unknown_service_the_method_determines_the_description() -> None:
    place = EndpointPattern.host("api.desk.example")

    assert "can change what your secret key opens at api.desk.example, in your name" in said(
        granted(place.with_methods("POST"), to=("api.desk.example",))
    )
    assert "can read what your secret key opens at api.desk.example" in said(
        granted(place.with_methods("GET"), to=("api.desk.example",))
    )


@pytest.mark.parametrize(
    ("grant", "refusal"),
    [
        (granted(EndpointPattern.host("a.org").with_schemes("http"), to=("a.org",)), "your secret key would be sent"),
        (granted(EndpointPattern.host("10.0.0.7")), "10.0.0.7 is private, not public"),
        (granted(EndpointPattern.host("printer.local")), "the host name is reserved for private networks"),
        (Capabilities.none().with_workspace_write(["daily/"]), "the agent's identity"),
    ],
)
def test_an_entry_that_the_runtime_would_refuse_is_described_as_refused(grant: Capabilities, refusal: str) -> None:
    text = said(grant)

    assert "which is refused" in text and refusal in text
    assert not any(line.startswith(("may GET", "may send", "may write")) for line in text.splitlines())
    assert "can go to" not in text


def test_an_internal_host_that_the_operator_exempts_is_not_refused() -> None:
    grant = granted(EndpointPattern.host("10.0.0.7"))

    assert "may send any request to https://10.0.0.7" in said(grant, networks=parse_networks(["10.0.0.0/8"]))


def test_over_http_a_credential_removes_the_unencrypted_part_of_an_entry() -> None:
    both = EndpointPattern.host("a.org").with_schemes("https", "http")

    assert "unencrypted" not in said(granted(both, to=("a.org",)))
    assert "unencrypted" in said(granted(both))


def test_a_credential_for_another_port_is_not_listed_with_an_entry() -> None:
    text = said(granted(EndpointPattern.host("a.org"), to=("a.org",), ports=(8443,)))

    assert "may send any request to https://a.org, every path\n" in text
    assert "lists your secret key for a.org, but may send no request that carries it" in text


def test_responses_of_one_host_can_be_sent_to_another() -> None:
    text = said(granted(GMAIL, EndpointPattern.host("hooks.slack.com"), to=(GMAIL.host_pattern,)))

    assert "data from gmail.googleapis.com with your secrets can go to hooks.slack.com" in text


def test_any_public_site_is_prominent_in_every_explanation() -> None:
    anywhere = Capabilities.none().with_http(EndpointPattern.any_public_host().with_methods("GET"))
    notes = anywhere.with_workspace_read(["notes/"])

    assert f"its parameters and data that it reads under notes/ can go to {ANYWHERE}" in said(notes)
    assert explain(notes)[0] == f"can reach {ANYWHERE}, and send it all data that the tool has"
    assert ANYWHERE in diff(Capabilities.none(), anywhere).widened[0].sentence
    file = parse('{"http": {"allowlist": [{"any_public_host": true}]}}')
    assert any("any public site" in warning.message for warning in review(file))


def test_every_port_of_an_entry_is_listed() -> None:
    one, two = EndpointPattern("a.org", ports=(8443,)), EndpointPattern("a.org", ports=(443, 8443))

    assert "https://a.org:8443, every path" in said(Capabilities.none().with_http([one]))
    assert "https://a.org (ports 443 or 8443), every path" in said(Capabilities.none().with_http([two]))


def test_numbers_are_shown_in_readable_units() -> None:
    text = said(parse('{"limits": {"fuel": 500000000, "memory_bytes": 1234567, "timeout_seconds": 90}}').capabilities)

    assert "about 1.2 MiB of memory, 500 million units of fuel and 90 seconds for a call" in text


@pytest.mark.parametrize("name", ["timeout_seconds", "fuel", "memory_bytes"])
def test_a_diff_shows_the_old_and_the_new_number_in_both_directions(name: str) -> None:
    few, many = (parse(f'{{"limits": {{"{name}": {n}}}}}').capabilities for n in (60, 7200))
    wider, narrower = diff(few, many).widened[0].sentence, diff(many, few).narrowed[0].sentence
    small, large = narrower.partition(": ")[2].split(" instead of ")

    assert wider.partition(": ")[2] == f"{large} instead of {small}"
    assert small != large


def test_numbers_that_round_to_the_same_text_are_shown_exactly() -> None:
    few, many = (parse(f'{{"limits": {{"memory_bytes": {n}}}}}').capabilities for n in (10_000_001, 10_000_002))

    assert "10,000,002 instead of 10,000,001" in diff(few, many).widened[0].sentence


@settings(max_examples=examples(150), deadline=None)
@given(capabilities)
def test_every_grant_can_be_explained_without_empty_sentences(grant: Capabilities) -> None:
    sentences = explain(grant)

    assert all(sentences) and sentences[-1].startswith("may not do anything")
    if ANYWHERE in "".join(sentences):
        assert "your secret" not in "".join(s for s in sentences if s.startswith("may "))


def test_an_operators_service_is_described_like_a_built_in_one() -> None:
    own = read_services(
        b'[[service]]\nname = "Desk"\nhosts = ["api.desk.example"]\n'
        b'can = [{ methods = ["POST"], paths = ["/tickets"], as_you = "close tickets as you" }]\n'
    )
    entry = EndpointPattern.host("api.desk.example").with_path_prefix("/tickets/").with_methods("POST")

    assert "can close tickets as you (Desk)" in said(granted(entry, to=("api.desk.example",)), services=own)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("service = 1", "must be a list of sections"),
        ('[[service]]\nname = "x"', "hosts is missing"),
        ('[[service]]\nname = "x"\nhosts = ["https://x"]', "has an invalid host"),
        ('[[service]]\nname = "x"\nhosts = ["x.org"]\ncan = [{ methods = ["FETCH"] }]', "an unknown method"),
        ('[[service]]\nname = "x"\nhosts = ["x.org"]\ncolour = "red"', "is not known"),
        ('[[service]]\nname = "x\\u001b[2J"\nhosts = ["x.org"]', "printable"),
        ("[[service", "not valid TOML"),
        ("[[service]]\n" * 1001, "more than 1000 services"),
        (
            '[[service]]\nname = "x"\nhosts = ["x.org"]\ncan = [{ methods = ["GET"], paths = ["v1"] }]',
            "must begin with '/'",
        ),
        ('[[service]]\nname = "x"\nhosts = ["x.org"]\ncan = "everything"', "list of up to 100 tables"),
        ('[[service]]\nname = "x"\nhosts = ["x.org"]\nscopes = ["read"]', "table of up to 1000 scopes"),
    ],
)
def test_an_error_in_a_services_file_is_reported(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem.replace("[", r"\[")):
        read_services(text.encode())


def test_every_built_in_service_has_permissions_or_scopes_that_follow_can() -> None:
    for service in known_services():
        assert service.can or service.scopes, service.name
        for words in (*service.scopes.values(), *(w for power in service.can for w in (power.as_you, power.anybody))):
            assert words == words.strip() and not words.startswith(("can ", "may ")), (service.name, words)


def test_the_default_limits_are_not_described() -> None:
    assert str(ResourceLimits().fuel) not in said(granted(GMAIL))


def test_the_new_sentences_of_an_update_are_those_that_did_not_describe_the_old_version() -> None:
    github = EndpointPattern.host("api.github.com").with_path_prefix("/repos/*/*/issues/")
    old = granted(github.with_methods("GET"), to=("api.github.com",))
    new = granted(github.with_methods("GET", "PATCH"), to=("api.github.com",))

    added = explain_added(old, new)
    assert added[0] == "can write issues and comments as you (GitHub)"
    assert any(each.startswith("may GET and PATCH") for each in added)
    assert not any(each.startswith(("can read", "may send those", "may not")) for each in added)
    assert explain_added(new, old) == () and explain_added(old, old) == ()


def test_a_new_sentence_names_the_tools_for_which_it_is_new() -> None:
    def file(*reading: str) -> Capabilities:
        tools = {name: {"workspace": {"allowed_prefixes": ["a/"]}} if name in reading else {} for name in "xyz"}
        return parse(json.dumps({"workspace": {"allowed_prefixes": ["a/"]}, "tools": tools})).capabilities

    assert explain_added(file("x"), file("x", "y", "z")) == ("y and z may read files under a/",)
    assert explain_added(Capabilities.none(), file("x"))[0].startswith("x may read")


def test_the_sentences_say_which_requests_may_delete_and_which_secret_goes_where() -> None:
    issues = EndpointPattern(GITHUB, "/repos/*/*/issues/", ("GET", "PATCH"))
    assert "DELETE" not in said(granted(issues, to=(GITHUB,)))
    assert '"any request" means every method: GET, POST, PUT, PATCH, DELETE,' in said(
        granted(EndpointPattern.host(GITHUB))
    )
    assert "path segments . or .., also encoded" in said(granted(EndpointPattern.host(GITHUB)))
    assert "percent-encoded" not in said(Capabilities.none().with_workspace_read(["notes/"]))


def test_the_sentences_have_the_exceptions_of_hosts_addresses_and_files() -> None:
    everywhere = granted(EndpointPattern.host("*.example.org"))
    assert "at every subdomain, but not example.org itself" in said(everywhere)
    assert not everywhere.explain_http("GET", "https://example.org/").allowed
    assert everywhere.explain_http("GET", "https://a.b.example.org/").allowed
    one = granted(EndpointPattern.host(GITHUB))
    assert "subdomain" not in said(one) and "non-public addresses" in said(one)
    assert not one.explain_http("GET", f"https://{GITHUB}/", ["10.0.0.7"]).allowed
    written = Capabilities.none().with_workspace_write(["out/"])
    assert "may not write the agent's identity files, such as AGENTS.md, or capability files" in said(written)
    assert not written.explain_workspace_write("out/AGENTS.md").allowed


def test_each_secret_is_listed_only_with_the_hosts_that_get_it() -> None:
    def key(name: str, host: str) -> CredentialMapping:
        return CredentialMapping(
            secret_name=name, location=CredentialLocation.header(f"X-{name}"), host_patterns=(host,)
        )

    keys = (key("one", "a.x.org"), key("two", "b.x.org"))
    text = said(Capabilities.none().with_http(HttpCapability((EndpointPattern.host("*.x.org"),), keys)))

    assert "can change what your secret one opens at a.x.org, in your name" in text
    assert "can change what your secret two opens at b.x.org, in your name" in text
    assert "one opens at b.x.org" not in text and "and your secret two opens" not in text
