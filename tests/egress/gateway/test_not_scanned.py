"""Responses to requests with a credential that cannot be scanned completely are withheld and recorded."""

from __future__ import annotations

import base64
import bz2
import gzip
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wasmrt.testing import FakeCall, ReceivedRequest, ServerConnection, http_response

from tests.tiers import examples
from wasmrt.capabilities import CredentialLocation, CredentialMapping
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MIB
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import HttpFailure, HttpRequest, NetworkConfig
from wasmrt.egress.leaks import LeakDetector, StreamingRedactor

from .world import HOST, MakeWorld, World

SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
DETECTOR = LeakDetector()


def members(secret: bytes, size: int) -> bytes:
    return gzip.compress(b"a member") * (33_000 + size) + gzip.compress(secret)


def layers(secret: bytes, size: int) -> bytes:
    for _ in range(6 + size % 4):
        secret = base64.b64encode(b"more text around it " + secret)
    return secret


def bytes_of_bombs(secret: bytes, size: int) -> bytes:
    bomb = base64.b64encode(gzip.compress(bytes(40 * MIB)))
    return b"\n".join([*[bomb] * (1 + size % 3), base64.b64encode(gzip.compress(b"before it " + secret))])


def escapes(secret: bytes, size: int) -> bytes:
    flood = b"\\n%41&lt;\\u0041a" * (300_000 + size)
    return flood + b"".join(b"%%25%02x" % byte for byte in gzip.compress(secret))


def candidates(secret: bytes, size: int) -> bytes:
    return b"password = changeme1\nsecret_token = value\n" * (20_000 + size) + secret


def closed_archive(secret: bytes, size: int) -> bytes:
    return (
        b"plain words\n" * size + b"\x28\xb5\x2f\xfd\x24\x16\xb1\0\0" + bytes(byte ^ 0x55 for byte in secret) + b"\xff"
    )


BOUNDS = (members, layers, bytes_of_bombs, escapes, candidates, closed_archive)


@pytest.mark.parametrize("behind", BOUNDS)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    size=st.integers(0, 60),
    cut=st.integers(30_000, 90_000),
    secret=st.text("abcDEF123xyzQRS", min_size=16, max_size=40),
)
@pytest.mark.ci("slow")
def test_secrets_beyond_a_scanner_limit_are_found_or_the_content_is_withheld(
    behind: Callable[[bytes, int], bytes], size: int, cut: int, secret: str
) -> None:
    scanner = DETECTOR.scanner({"token": secret}).partial
    text = behind(secret.encode(), size)
    report = scanner.scan_bytes(text)
    assert report.should_block or "secret:token" in {match.rule for match in report.matches}
    stream = StreamingRedactor(scanner)
    shown = b"".join(stream.feed(text[at : at + cut]) for at in range(0, len(text), cut)) + stream.finish()
    assert stream.blocked is not None or b"[REDACTED:secret:token]" in shown
    assert secret.encode() not in shown
    if stream.blocked is not None and stream.blocked.rule == "decode-limit-exceeded":
        assert stream.unscanned == "decode-limit-exceeded"


@pytest.mark.ci("slow")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("behind", BOUNDS)
def test_a_credential_beyond_a_scanner_limit_reaches_no_guest_and_is_recorded(
    world: MakeWorld, behind: Callable[[bytes, int], bytes], streamed: bool
) -> None:
    w = world(lambda r, c: http_response(behind((r.header("Authorization") or "").encode(), 7)))
    call = credentialed(w)
    shown, failure = b"", None
    try:
        with w.gateway.open(call, HttpRequest("GET", w.url())) as response:
            shown = response.read_all() if not streamed else b""
            while streamed and (piece := response.read()):
                shown += piece
    except HttpFailure as error:
        failure = error
    assert SECRET.encode() not in shown
    if failure is None:
        assert b"[REDACTED:secret:token]" in shown
        assert behind is candidates
        return
    assert failure.code in ("response-not-scanned", "response-leak")
    assert call.decisions[-1].allowed is False
    assert call.decisions[-1].reason in (Reason.NOT_SCANNED, Reason.LEAK)


class TimeIsUpError(Exception):
    pass


class Clock:
    """A check that ends the scan after the given time."""

    def __init__(self, last: int | None = None) -> None:
        self.calls, self._last = 0, last

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self._last:
            raise TimeIsUpError


@settings(max_examples=examples(40), deadline=None)
@given(part=st.floats(0, 1), cut=st.integers(2_000, 90_000), streamed=st.booleans())
def test_content_that_was_not_scanned_in_time_is_not_returned(part: float, cut: int, streamed: bool) -> None:
    text = b"".join(b"line %d %%41&lt;\\n\n" % n for n in range(4_000)) + layers(SECRET.encode(), 2) + b"\n"

    def shown(clock: Clock) -> bytes:
        scanner = DETECTOR.scanner({"token": SECRET}, check=clock).partial
        if not streamed:
            assert scanner.scan_bytes(text).matches
            return b""
        stream, seen = StreamingRedactor(scanner), b""
        try:
            for at in range(0, len(text), cut):
                seen += stream.feed(text[at : at + cut])
            seen += stream.finish()
            return seen
        finally:
            assert layers(SECRET.encode(), 2) not in seen

    counted = Clock()
    shown(counted)
    assert counted.calls > 1
    with pytest.raises(TimeIsUpError):
        shown(Clock(1 + int(part * (counted.calls - 1))))


def credentialed(w: World, host: str = HOST) -> FakeCall:
    mapping = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(host,))
    return w.call(mapping, secrets={"token": SECRET})


def closed(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(b"plain\n" * 50 + b"\x28\xb5\x2f\xfd\x24\x16\xb1\0\0" + b"\xfe\x81" * 40)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_response_that_cannot_be_decoded_is_denied_with_its_reason(world: MakeWorld, streamed: bool) -> None:
    w = world(closed)
    call = credentialed(w)
    with pytest.raises(HttpFailure) as caught, w.gateway.open(call, HttpRequest("GET", w.url())) as response:
        while streamed and response.read():
            pass
        response.read_all()
    assert (caught.value.code, caught.value.request_sent) == ("response-not-scanned", True)
    assert "network.unsafe_unscanned_responses" in str(caught.value.hint)
    decision = call.decisions[-1]
    assert (decision.allowed, decision.reason, decision.rule) == (False, Reason.NOT_SCANNED, "decode-limit-exceeded")


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_operator_can_allow_unscanned_responses_of_a_host_and_they_are_recorded(
    world: MakeWorld, streamed: bool
) -> None:
    w = world(closed, unsafe_unscanned_hosts=(HOST.upper(),))
    call = credentialed(w)
    with w.gateway.open(call, HttpRequest("GET", w.url())) as response:
        body = b"".join(iter(response.read, b"")) if streamed else response.read_all()
    assert body.startswith(b"plain\n") and body.endswith(b"\xfe\x81")
    (decision,) = (decision for decision in call.decisions if decision.reason is Reason.NOT_SCANNED)
    assert (decision.allowed, decision.rule) == (True, "network.unsafe_unscanned_hosts")


ENTRY = f"{HOST}/releases/*/files/ application/zip"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_exception_covers_only_its_host_paths_and_content_type(world: MakeWorld, streamed: bool) -> None:
    sent: list[str] = []

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        head, body = closed(request, connection).split(b"\r\n\r\n", 1)
        return head + b"".join(b"\r\nContent-Type: " + kind.encode() for kind in sent) + b"\r\n\r\n" + body

    entries = (ENTRY.upper().replace("RELEASES", "releases").replace("FILES", "files"), f"{HOST}/logo image/*")
    w = world(script, unsafe_unscanned_responses=entries)
    zipped, kind = "/releases/v1/files/a.zip", "application/zip"
    for host, path, kinds, entry in (
        (HOST, zipped, [kind], 0),
        (HOST, f"{zipped}?download=1", ["Application/ZIP; charset=binary"], 0),
        (HOST, "/logo", ["image/x-icon"], 1),
        ("other.example.com", zipped, [kind], None),
        (HOST, "/releases/v1/files", [kind], None),
        (HOST, "/releases/v1/v2/files/a.zip", [kind], None),
        (HOST, "/releases/v1%2Fv2/files/a.zip", [kind], None),
        (HOST, "/RELEASES/v1/files/a.zip", [kind], None),
        (HOST, "/logo/a", ["image/png"], None),
        (HOST, "/logo", ["image/png, text/html"], None),
        (HOST, "/logo", ["image/"], None),
        (HOST, "/logo", ["images/png"], None),
        (HOST, zipped, ["application/zip2"], None),
        (HOST, zipped, [], None),
        (HOST, zipped, [kind, kind], None),
    ):
        sent[:] = kinds
        call = credentialed(w, host)
        with w.gateway.open(call, HttpRequest("GET", w.url(path, host))) as response:
            try:
                body = b"".join(iter(response.read, b"")) if streamed else response.read_all()
            except HttpFailure as error:
                body = b"" if error.code == "response-not-scanned" else b"another error"
        rules = [decision.rule for decision in call.decisions if decision.reason is Reason.NOT_SCANNED]
        expected = "decode-limit-exceeded" if entry is None else f"network.unsafe_unscanned_responses: {entries[entry]}"
        assert (rules, body.endswith(b"\xfe\x81")) == ([expected], entry is not None), (host, path, kinds)


def test_an_exception_does_not_pass_on_a_secret(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        echo = (request.header("Authorization") or "").encode()
        return http_response(echo + b"\x28\xb5\x2f\xfd\x24\x16\xb1\0\0", headers=(("Content-Type", "a/b"),))

    w = world(script, unsafe_unscanned_responses=(f"{HOST}/ a/b",))
    assert SECRET.encode() not in w.get(call=credentialed(w)).body


@pytest.mark.parametrize(
    "entries",
    [
        ENTRY, [7], [""], [HOST], [f"{HOST}/a"], [f"{HOST} a/b"], [f"https://{HOST}/a a/b"], [f"{HOST}:443/a a/b"],
        [f"*.{HOST}/ a/b"], ["*/ a/b"], [f"u@{HOST}/ a/b"], [f"{HOST}/a b"], [f"{HOST}/a */*"], [f"{HOST}/a a/*b"],
        [f"{HOST}/a a/b; q=1"], [f"{HOST}/a  a/b"], [f"{HOST}/a a/b\n"], [f"{HOST}/../a a/b"], [f"{HOST}/a?b a/b"],
        [f"{HOST}/a* a/b"], [f"{HOST}/** a/b"], ["%zz/ a/b"], ["[::g]/ a/b"], ["x" * 300 + "/ a/b"],
    ],
)  # fmt: skip
def test_an_invalid_exception_raises_configuration_error(entries: object) -> None:
    with pytest.raises(ConfigurationError, match="unsafe_unscanned_responses"):
        NetworkConfig(unsafe_unscanned_responses=entries)  # type: ignore[arg-type]


def test_without_an_injected_secret_such_a_response_is_passed_on(world: MakeWorld) -> None:
    w = world(closed)
    assert w.get().body.endswith(b"\xfe\x81")


@pytest.mark.parametrize("hosts", ["api.example.com", ["https://api.example.com/"], [7]])
def test_an_invalid_host_name_raises_configuration_error(hosts: object) -> None:
    with pytest.raises(ConfigurationError, match="unsafe_unscanned_hosts"):
        NetworkConfig(unsafe_unscanned_hosts=hosts)  # type: ignore[arg-type]


@pytest.mark.parametrize("passing", [(), (HOST,)], ids=["any host", "a host whose answers may pass"])
def test_candidates_over_the_budget_are_recorded_but_not_withheld(world: MakeWorld, passing: tuple[str, ...]) -> None:
    text = candidates(b"", 0)
    assert any(m.rule == "scan-budget-exceeded" for m in DETECTOR.scan_bytes(text).matches)
    w = world(lambda r, c: http_response(text), unsafe_unscanned_hosts=passing)
    call = credentialed(w)
    w.get(call=call)
    told = call.decisions[-1]
    assert (told.allowed, told.reason, told.rule) == (True, Reason.NOT_SCANNED, "scan-budget-exceeded")


def test_a_credential_is_sent_to_one_port_of_its_host(world: MakeWorld) -> None:
    seen: list[str | None] = []

    def note(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        seen.append(request.header("Authorization"))
        return http_response(b"{}")

    w = world(note)
    mapping = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    w.get(call=w.call(mapping, secrets={"token": SECRET}))
    call = w.call(mapping, secrets={"token": SECRET})
    assert call.grant.http is not None
    (entry, *_), here = call.grant.http.allowlist, w.server.port
    for ports, credential_ports, sent in (
        ((443, here), (), False),
        ((443, here), (here,), True),
        ((here, here + 1 if here < 65535 else 1), (), False),
        ((here,), (443,), False),
    ):
        bound = replace(mapping, ports=credential_ports)
        http = type(call.grant.http)((entry.with_ports(*ports),), (bound,))
        again = FakeCall(call.grant.with_http(http), user="ann", secrets=call.secrets)
        w.get(call=again)
        assert (seen[-1] is not None) is sent, (ports, credential_ports)


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip twice": lambda raw: gzip.compress(gzip.compress(raw)),
    "zlib twice": lambda raw: zlib.compress(zlib.compress(raw)),
    "base64 of bzip2": lambda raw: base64.b64encode(bz2.compress(raw)),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("how", PACKED)
def test_a_packed_credential_is_redacted_and_recorded(world: MakeWorld, how: str, streamed: bool) -> None:
    w = world(lambda r, c: http_response(PACKED[how]((r.header("Authorization") or "")[7:].encode())))
    call = credentialed(w)
    with w.gateway.open(call, HttpRequest("GET", w.url())) as response:
        body = b"".join(iter(response.read, b"")) if streamed else response.read_all()
    assert body.rstrip(b"=") == b"[REDACTED:secret:token]"
    decision = call.decisions[-1]
    assert (decision.allowed, decision.reason, decision.rule) == (True, Reason.LEAK, "secret:token")


def test_a_credential_in_a_header_is_recorded_and_a_clean_response_is_not(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(headers=(("X-A", r.target.strip("/")),)))
    for value, recorded in ((SECRET, True), (SECRET[::-1], True), ("plain", False)):
        call = credentialed(w)
        w.get(f"/{value}", call)
        assert [d.subject for d in call.decisions if d.reason is Reason.LEAK] == ["the response's headers"] * recorded


@pytest.mark.parametrize("how", ["many empty members", "codings in a row"])
def test_the_cost_of_packed_content_is_bounded(world: MakeWorld, how: str) -> None:
    empty = gzip.compress(b"")
    headers = (("Content-Encoding", "gzip" if how == "many empty members" else "gzip, gzip"),)
    w = world(lambda r, c: http_response(empty * 20_000, headers=headers))
    with pytest.raises(HttpFailure) as caught:
        w.get()
    assert caught.value.code == "content-coding"


def test_headers_that_cannot_be_decoded_are_withheld_and_recorded(world: MakeWorld) -> None:
    hidden = layers(b"nothing", 3).decode()
    w = world(lambda r, c: http_response(headers=(("X-A", "1"), ("X-Hidden", hidden), ("X-B", "2"))))
    call = credentialed(w)
    headers = w.get(call=call).headers
    assert dict(headers)["X-A"] == "1" and dict(headers)["X-B"] == "2"
    assert hidden not in repr(headers)
    decision = call.decisions[-1]
    assert (decision.allowed, decision.reason, decision.subject) == (
        False, Reason.NOT_SCANNED, "the response's headers",
    )  # fmt: skip


def test_headers_that_cannot_be_decoded_together_are_all_withheld(world: MakeWorld) -> None:
    hidden = layers(b"", 3).decode()
    size = -(-len(hidden) // 100)
    pieces = tuple(("X-A", hidden[at : at + size]) for at in range(0, len(hidden), size))
    w = world(lambda r, c: http_response(headers=pieces))
    assert w.get().headers == pieces
    assert w.get(call=credentialed(w)).headers == ()
