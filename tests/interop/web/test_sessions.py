"""Tokens and sessions: stored as digests, valid for one browser, one path and a limited time."""

from __future__ import annotations

import pytest

from wasmrt.interop.web import Request, Sessions, TokenDigest, bearer_token, new_token


def request(path: str = "/", **headers: str) -> Request:
    return Request(method="GET", path=path, query="", headers=tuple(headers.items()))


def begun(sessions: Sessions) -> tuple[str, str]:
    """Return the path and the cookie of a new session."""
    found = sessions.begin(sessions.new_link())
    assert found is not None
    return found[0].path, found[1].partition(";")[0]


def test_tokens_are_recognized_by_their_digest() -> None:
    token = new_token("prefix-")
    digest = TokenDigest.of(token)
    assert token not in digest.hex
    assert TokenDigest(digest.hex).matches(token)
    for other in (None, "", token[:-1], token + "a", token.upper(), digest.hex, "a" * 10_000_000, "\udc80"):
        assert not digest.matches(other)
    assert new_token() != new_token()
    for text in ("", "abc", digest.hex.upper(), digest.hex + "\n"):
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            TokenDigest(text)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc==", "abc=="),
        ("BEARER  a.b_c~d+e/f-g ", "a.b_c~d+e/f-g"),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearer a b", None),
        ("Bearer a,b", None),
        ("Basic abc", None),
        ("xBearer abc", None),
        ("", None),
    ],
)
def test_bearer_tokens_are_parsed_as_in_their_rfc(header: str, token: str | None) -> None:
    assert bearer_token(request(authorization=header)) == token


def test_a_link_starts_exactly_one_session() -> None:
    sessions = Sessions()
    link = sessions.new_link()
    assert sessions.begin("") is None
    assert sessions.begin(link + "a") is None
    assert sessions.begin(link) is not None
    assert sessions.begin(link) is None


def test_a_session_needs_its_path_and_its_cookie() -> None:
    sessions = Sessions("/approvals/")
    (first, cookie), (second, other) = begun(sessions), begun(sessions)
    for path in (first, first + "x/y"):
        found = sessions.find(request(path, cookie=f"a=1; {cookie}; b=2"))
        assert found is not None and found.path == first
    for path, given in (
        (first, other),
        (second, cookie),
        (first, ""),
        (first, f"{cookie}; {other}"),
        (first, cookie + "a"),
        ("/", cookie),
        ("/approvals/", cookie),
        (first.removeprefix("/approvals"), cookie),
        ("/approvals/../" + first, cookie),
    ):
        assert sessions.find(request(path, cookie=given)) is None


def test_links_and_sessions_expire() -> None:
    now = 0.0
    sessions = Sessions(clock=lambda: now)
    old = sessions.new_link()
    path, cookie = begun(sessions)
    now = 15 * 60.0
    assert sessions.begin(old) is None
    assert sessions.find(request(path, cookie=cookie)) is not None
    now = 12 * 3600.0
    assert sessions.find(request(path, cookie=cookie)) is None


def test_only_the_newest_links_and_sessions_are_kept() -> None:
    sessions = Sessions()
    links = [sessions.new_link() for _ in range(17)]
    assert sessions.begin(links[0]) is None
    assert sessions.begin(links[16]) is not None
    first, *_, last = [begun(sessions) for _ in range(65)]
    assert sessions.find(request(first[0], cookie=first[1])) is None
    assert sessions.find(request(last[0], cookie=last[1])) is not None


def test_session_cookies_have_path_httponly_and_samesite() -> None:
    sessions = Sessions()
    plain, secure = (sessions.begin(sessions.new_link(secure=each)) for each in (False, True))
    assert plain is not None and secure is not None
    assert plain[1].endswith(f"; Path={plain[0].path}; Max-Age=43200; HttpOnly; SameSite=Strict")
    assert secure[1].endswith("; HttpOnly; SameSite=Strict; Secure")


def test_a_form_of_another_session_is_refused() -> None:
    sessions = Sessions()
    one, other = (sessions.begin(sessions.new_link()) for _ in range(2))
    assert one is not None and other is not None
    assert one[0].allows({"form_token": one[0].form_token})
    for form in (None, {}, {"form_token": ""}, {"form_token": other[0].form_token}, {"form_token": "\u00e9"}):
        assert not one[0].allows(form)


def test_an_ended_session_is_not_found() -> None:
    sessions = Sessions()
    path, cookie = begun(sessions)
    found = sessions.find(request(path, cookie=cookie))
    assert found is not None
    assert "Max-Age=0" in sessions.end(found)
    assert sessions.find(request(path, cookie=cookie)) is None


def test_repeated_form_fields_are_refused() -> None:
    def form(body: bytes, kind: str = "application/x-www-form-urlencoded") -> dict[str, str] | None:
        made = Request(method="POST", path="/", query="", headers=(("content-type", kind),), body=body)
        return made.read_form()

    assert form(b"a=1&b=%C3%A9+%26") == {"a": "1", "b": "\u00e9 &"}
    assert form(b"") == {}
    for body in (b"a=1&a=2", b"a", b"\xff=1", b"a=%FF", b"&".join(b"a%d=1" % n for n in range(1001))):
        assert form(body) is None
    assert form(b"a=1", "text/plain") is None
    assert form(b"a=1", "multipart/form-data; boundary=x") is None
