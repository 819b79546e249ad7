"""The addresses that count as public."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.capabilities import Capabilities, EndpointPattern, check_addresses
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Reason
from wasmrt.core.url import AddressClass, classify_address, parse_networks

GRANTED = Capabilities.none().with_http([EndpointPattern.host("api.example.com")])
SPECIAL_V4 = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16"),
    *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
    *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"),
]
SPECIAL_V6 = [
    *("::/128", "::1/128", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64"),
    *("2001::/23", "2001::/32", "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28", "2001:20::/28"),
    *("2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7"),
    *("fe80::/10", "fec0::/10", "ff00::/8", "fd00:ec2::254/128", "4000::/3", "e000::/4", "::ffff:0:0:0/96"),
]


@pytest.mark.parametrize("network", [*SPECIAL_V4, *SPECIAL_V6])
def test_the_first_and_last_address_of_a_special_range_are_not_public(network):
    net = ip_network(network)
    for address in (net[0], net[-1], net[net.num_addresses // 2]):
        assert classify_address(address) is not AddressClass.PUBLIC, address
        assert GRANTED.explain_http("GET", "https://api.example.com/", [str(address)]).reason == (
            Reason.ADDRESS_NOT_ALLOWED
        )


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_ipv4_address_embedded_in_ipv6_is_public(number):
    dressed = {
        "mapped": (0xFFFF << 32) | number,
        "compatible": number,
        "translated": (0xFFFF << 48) | number,
        "nat64": (0x64FF9B << 96) | number,
        "6to4": (0x2002 << 112) | (number << 80) | 1,
        "teredo": (0x20010000 << 96) | (number ^ 0xFFFFFFFF),
        "isatap": (0x26064700 << 96) | (0x5EFE << 32) | number,
    }
    for name, value in dressed.items():
        assert classify_address(IPv6Address(value)) is not AddressClass.PUBLIC, (name, IPv4Address(number))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "9.255.255.255", "172.32.0.0", "223.255.255.255", "2606:4700::1111", "2a00::1"]
)
def test_an_ordinary_address_is_public(address):
    assert classify_address(address) is AddressClass.PUBLIC
    assert GRANTED.explain_http("GET", "https://api.example.com/", [address]).allowed


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.2.3", "01.2.3.4", "0x7f.0.0.1", "2130706433", "fe80::1%eth0", "2606::1%1", "1.2.3.4/32", "１.1.1.1"],
)
def test_a_dns_answer_that_is_not_an_address_is_refused(text):
    assert classify_address(text) is AddressClass.UNREADABLE
    assert not GRANTED.explain_http("GET", "https://api.example.com/", [text]).allowed


@pytest.mark.parametrize("address", ["2600::5efe:a00:1", "2600::200:5efe:a00:1"])
def test_an_ipv6_address_that_a_tunnel_maps_to_ipv4_is_not_public(address):
    assert classify_address(address) is AddressClass.EMBEDDED_IPV4


def test_one_internal_address_among_public_ones_refuses_all():
    answers = ["93.184.216.34", "127.0.0.1", "2606:4700::1111"]
    decision = GRANTED.explain_http("GET", "https://api.example.com/", answers)
    assert decision.reason == Reason.ADDRESS_NOT_ALLOWED
    assert "127.0.0.1 is loopback" in decision.rule


def test_an_empty_dns_answer_is_refused():
    assert GRANTED.explain_http("GET", "https://api.example.com/", []).reason == Reason.NO_ADDRESS


def test_an_exemption_covers_only_its_network():
    def decide(address):
        return GRANTED.explain_http(
            "GET", "https://api.example.com/", [address], unsafe_allowed_networks=["10.1.0.0/16", "fd00::/8"]
        ).allowed

    assert decide("10.1.2.3") and decide("fd00::1")
    assert not decide("10.2.0.1") and not decide("127.0.0.1") and not decide("::ffff:10.1.2.3")


def test_an_exemption_does_not_allow_invalid_addresses():
    assert not check_addresses(["nonsense"], ["0.0.0.0/0", "::/0"]).allowed
    with pytest.raises(ConfigurationError):
        parse_networks(["10.0.0.0/33"])


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "a.localhost", "metadata.google.internal", "printer.local", "nas.home.arpa"]
)
def test_a_private_network_name_needs_an_exemption(host):
    granted = Capabilities.none().with_http([EndpointPattern.host(host)])
    url = f"https://{host}/"
    assert granted.explain_http("GET", url).reason == Reason.ADDRESS_NOT_ALLOWED
    assert granted.explain_http("GET", url, ["127.0.0.1"], unsafe_allowed_networks=["127.0.0.0/8"]).allowed
    assert not granted.explain_http("GET", url, ["10.0.0.1"], unsafe_allowed_networks=["127.0.0.0/8"]).allowed


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:127.0.0.1]", "100.100.100.200"])
def test_a_literal_address_is_decided_without_a_resolver(host):
    granted = Capabilities.none().with_http([EndpointPattern.host(host)])
    assert granted.explain_http("GET", f"https://{host}/").reason == Reason.ADDRESS_NOT_ALLOWED
    assert granted.explain_http("GET", f"https://{host}/", ["8.8.8.8"]).reason == Reason.ADDRESS_NOT_ALLOWED
