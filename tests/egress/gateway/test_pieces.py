"""No response returns a secret in pieces."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import pytest
from wasmrt.testing import FakeCall, ReceivedRequest, ServerConnection, http_response
from wasmrt.testing._server import Script

from wasmrt.capabilities import CredentialLocation, CredentialMapping
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import HttpFailure
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld, World

SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"


def credentialed(w: World, location: CredentialLocation | None = None) -> FakeCall:
    place = location or CredentialLocation.bearer()
    mapping = CredentialMapping(secret_name="token", location=place, host_patterns=(HOST,))
    return w.call(mapping, secrets={"token": SECRET})


def echo_of_a_range(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    echo = request.header("Authorization") or "nothing"
    asked = request.header("Range")
    if asked is None:
        return http_response(echo.encode())
    first, last = asked.removeprefix("bytes=").split("-")
    return http_response(echo[int(first) : int(last) + 1].encode(), status=206)


@pytest.mark.parametrize("name", ["Range", "range", "If-Range", "If_Range", "Request-Range"])
def test_a_request_with_a_credential_cannot_ask_for_a_partial_response(world: MakeWorld, name: str) -> None:
    w = world(echo_of_a_range)
    call = credentialed(w)
    with pytest.raises(HttpFailure) as caught:
        w.get("/", call, headers=((name, "bytes=7-13"),))
    failure = caught.value
    assert (failure.kind, failure.code) == (FailureKind.NETWORK_DENIED, "header-not-allowed")
    assert call.decisions[-1].reason is Reason.HEADER_NOT_ALLOWED
    assert failure.hint == "leave it out and request the complete response"
    assert w.server.connections == 0


def test_a_request_without_a_credential_may_ask_for_a_partial_response(world: MakeWorld) -> None:
    w = world(echo_of_a_range)
    part = (("Range", "bytes=0-2"),)
    assert w.get("/", headers=part).body == b"not"
    in_path = credentialed(w, CredentialLocation.url_path("token"))
    assert w.get("/", in_path, headers=part).status == 206
    with pytest.raises(HttpFailure) as caught:
        w.get("/{token}", in_path, headers=part)
    assert caught.value.code == "header-not-allowed"


def test_an_unrequested_partial_response_does_not_reach_a_tool_with_a_credential(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response((r.header("Authorization") or "none")[7:14].encode(), status=206))
    call = credentialed(w)
    with pytest.raises(HttpFailure) as caught:
        w.get("/", call)
    failure = caught.value
    assert (failure.kind, failure.code) == (FailureKind.OPERATION_FAILED, "response-partial")
    assert failure.request_sent and call.decisions[-1].reason is Reason.LEAK
    assert SECRET[:7] not in repr((failure, failure.hint, call.decisions))
    assert w.get("/").body == b""


HALVES = SECRET[:11], SECRET[11:]
THIRDS = SECRET[:7], SECRET[7:14], SECRET[14:]
QUARTERS = SECRET[:6], SECRET[6:12], SECRET[12:17], SECRET[17:]


@pytest.mark.parametrize(
    "pieces",
    [
        (("X-A", HALVES[0]), ("X-B", HALVES[1])),
        (("X-A", HALVES[0]), ("X-A", HALVES[1])),
        tuple(("X-A", piece) for piece in QUARTERS),
        ((QUARTERS[0], QUARTERS[1]), (QUARTERS[2], QUARTERS[3])),
        (("X-A", "id=" + HALVES[0]), ("X-B", HALVES[1] + ";q=1")),
        (("X-A", THIRDS[0]), ("X-B", THIRDS[1]), ("X-C", THIRDS[2])),
        (("X-A", HALVES[0]), ("Set-Cookie", "between"), ("X-B", HALVES[1])),
        (("X-A", HALVES[0].encode().hex()), ("X-B", HALVES[1].encode().hex())),
        ((HALVES[0], HALVES[1]),),
        (("X-A", SECRET + HALVES[0]), ("X-B", HALVES[1])),
        (("X-A", HALVES[0]), ("X-B", HALVES[0]), ("X-C", HALVES[1]), ("X-D", HALVES[1])),
    ],
)  # fmt: skip
def test_a_secret_split_over_several_headers_is_removed(world: MakeWorld, pieces: tuple[tuple[str, str], ...]) -> None:
    around = (("ETag", '"1"'), *pieces, ("X-Last", "kept"))
    w = world(lambda r, c: http_response(headers=around))
    headers = w.get("/", credentialed(w)).headers
    assert (headers[0], headers[-1]) == (around[0], around[-1])
    assert_nothing_of_it_in(repr(headers))


def assert_nothing_of_it_in(text: str) -> None:
    for written in (SECRET, SECRET.encode().hex(), base64.b64encode(SECRET.encode()).decode()):
        assert not [at for at in range(len(written) - 7) if written[at : at + 8] in text]


def in_turn(*answers: bytes) -> Script:
    left = list(answers)
    return lambda r, c: left.pop(0)


SOME = SECRET[:9], SECRET[5:14], SECRET[-9:]


@pytest.mark.parametrize("piece", [*HALVES, *SOME])
@pytest.mark.parametrize("write", [str, lambda s: s.encode().hex(), lambda s: base64.b64encode(s.encode()).decode()])
def test_a_piece_of_a_secret_is_redacted_wherever_it_is(
    world: MakeWorld, piece: str, write: Callable[[str], str]
) -> None:
    text = write(piece)
    w = world(lambda r, c: http_response(f'{{"a": "b{text}", "c": 1}}'.encode(), headers=(("X-A", text),)))
    answer = w.get("/", credentialed(w))
    ((_, value),) = answer.headers
    assert re.fullmatch(
        r"\[REDACTED:secret:token\].?=?", value
    )  # base64's last character also encodes bits of other bytes
    assert answer.body.startswith(b'{"a": "') and answer.body.endswith(b'", "c": 1}')
    assert b"[REDACTED:secret:token]" in answer.body
    assert_nothing_of_it_in(answer.body.decode())


def test_halves_in_the_wrong_order_or_in_header_and_body_are_redacted(world: MakeWorld) -> None:
    last, first = ("X-A", HALVES[1]), ("X-C", HALVES[0])
    w = world(
        in_turn(
            http_response(headers=(last, ("X-B", "between"), first)),
            http_response(HALVES[1].encode(), headers=(first,)),
        )
    )
    call = credentialed(w)
    mark = "[REDACTED:secret:token]"
    assert w.get("/", call).headers == (("X-A", mark), ("X-B", "between"), ("X-C", mark))
    answer = w.get("/", call)
    assert (answer.headers, answer.body) == ((("X-C", mark),), mark.encode())


def test_pieces_that_are_requested_one_by_one_are_redacted(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        offset = int(request.target.partition("?")[2])
        return http_response((request.header("Authorization") or "none")[7:][offset : offset + 10].encode())

    w = world(script)
    call = credentialed(w)
    got = b"".join(w.get(f"/?{offset}", call).body for offset in range(0, len(SECRET), 10))
    assert got == b"[REDACTED:secret:token]" * 2 + SECRET[20:].encode()


def test_a_piece_stored_by_a_server_is_redacted_in_responses_without_a_credential(world: MakeWorld) -> None:
    w = world(in_turn(http_response(b"kept"), http_response(HALVES[0].encode())))
    call = credentialed(w, CredentialLocation.url_path("token"))
    assert w.get("/{token}", call).body == b"kept"
    assert w.get("/", call).body == b"[REDACTED:secret:token]"


def test_a_word_that_is_a_part_of_a_secret_is_not_redacted(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"the production system, 20261121 and Production"))
    mapping = CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    call = w.call(mapping, secrets={"token": "acme-production-20261121" + "-x7"})
    assert w.get("/", call).body == b"the production system, 20261121 and Production"


def test_a_whole_secret_in_one_header_does_not_affect_its_neighbours(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(headers=(("X-A", "1"), ("X-B", f"is {SECRET}."), ("X-C", "3"))))
    assert w.get("/", credentialed(w)).headers == (("X-A", "1"), ("X-B", "is [REDACTED:secret:token]."), ("X-C", "3"))


def test_headers_that_only_resemble_a_token_when_joined_are_kept(world: MakeWorld) -> None:
    look = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    pieces = (("X-A", look[:20]), ("X-B", look[20:]))
    w = world(lambda r, c: http_response(headers=pieces))
    assert w.get("/", credentialed(w)).headers == pieces
