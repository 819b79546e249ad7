"""Environment, arguments, folders and sockets are empty or refused, and exit ends the call."""

from __future__ import annotations

import pytest

from tests.sandbox.wasi.conftest import Guest
from wasmrt.core.errors import GuestError, GuestExitError, InternalError
from wasmrt.sandbox.component import Err, Ok


def test_environment_arguments_and_folders_are_empty(guest: Guest) -> None:
    assert guest("cli/environment#get-environment") == []
    assert guest("cli/environment#get-arguments") == []
    assert guest("cli/environment#initial-cwd") is None
    assert guest("filesystem/preopens#get-directories") == []


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_no_stream_is_a_terminal(guest: Guest, stream: str) -> None:
    assert guest(f"cli/terminal-{stream}#get-terminal-{stream}") is None


@pytest.mark.parametrize(
    ("name", "values", "subject"),
    [
        ("sockets/tcp-create-socket#create-tcp-socket", ("ipv4",), "open a TCP socket (ipv4)"),
        ("sockets/udp-create-socket#create-udp-socket", ("ipv6",), "open a UDP socket (ipv6)"),
        ("sockets/ip-name-lookup#resolve-addresses", (1, "example.com"), "look up example.com"),
        ("sockets/ip-name-lookup#resolve-addresses", (1, "a\x1b[2Jb"), "look up a name"),
        ("sockets/ip-name-lookup#resolve-addresses", (1, "ä" * 3), "look up \\xe4\\xe4\\xe4"),
    ],
)
def test_socket_functions_are_refused_and_recorded(
    guest: Guest, name: str, values: tuple[object, ...], subject: str
) -> None:
    assert guest(name, *values) == Err("access-denied")
    (decision,) = guest.call.decisions
    assert (decision.allowed, decision.subject) == (False, subject)


def test_long_host_names_are_truncated_in_the_record(guest: Guest) -> None:
    guest("sockets/ip-name-lookup#resolve-addresses", 1, "x" * 1_000_000)
    assert len(guest.call.decisions[0].subject) < 100


def test_the_network_handle_can_be_created_and_dropped(guest: Guest) -> None:
    network = guest("sockets/instance-network#instance-network")
    guest.drop("sockets/network#network", network)


@pytest.mark.parametrize(
    "name",
    [
        "sockets/tcp#[method]tcp-socket.start-connect",
        "sockets/udp#[method]outgoing-datagram-stream.send",
    ],
)
def test_methods_of_unavailable_resources_raise_internal_error(guest: Guest, name: str) -> None:
    with pytest.raises(InternalError):
        guest(name, 1, "x")


@pytest.mark.parametrize(("status", "code"), [(Ok(), 0), (Err(), 1)])
def test_exit_ends_the_call_with_the_guests_status(guest: Guest, status: object, code: int) -> None:
    with pytest.raises(GuestExitError) as caught:
        guest("cli/exit#exit", status)
    assert caught.value.exit_code == code
    assert isinstance(caught.value, GuestError)


def test_exit_with_code_reports_the_code(guest: Guest) -> None:
    with pytest.raises(GuestExitError) as caught:
        guest("cli/exit#exit-with-code", 77)
    assert "77" in caught.value.message


def test_wasi_state_is_created_only_on_use(guest: Guest) -> None:
    assert guest.ctx._parts is None
    guest("cli/environment#get-environment")
    assert guest.ctx._parts is None
