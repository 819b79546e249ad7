"""An allowed path stays under its path prefix, however a lenient server parses it."""

import itertools

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.capabilities import Capabilities, EndpointPattern

GRANT = Capabilities.none().with_http([EndpointPattern.host("api.example.com").with_path_prefix("/v1/public/")])
PIECES = [
    *("/", "a", ".", "..", ";", ";x=1", "\\", " ", "%2e", "%2E", "%2f", "%5c", "%00", "%09", "%20", "%3b", "%25", "%"),
    *("%c0%ae", "%c0%af", "%c1%9c", "%e0%80%ae", "%e0%80%af", "%f0%80%80%ae", "%f8%80%80%80%ae", "%fc%80%80%80%80%af"),
    *(
        "%c0%2e",
        "%c0%2f",
        "%ae",
        "%af",
        "%dc",
        "%252e",
        "%252f",
        "%25c0%25ae",
        "%25%32%65",
        "%u002e",
        "%u002f",
        "%uff0e",
    ),
    *("%ef%bc%8e", "%ef%bc%8f", "%ef%b9%92", "%e2%88%95", "%e2%80%a4", "%e2%80%a5", "%ed%a0%80", "%c3%a9"),
]
paths = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


def lenient_utf8(data: bytes) -> str:
    """Decode UTF-8 without validation: trust every lead byte and mask the rest, as RFC 3629 (10) warns."""
    text, at = [], 0
    while at < len(data):
        byte = data[at]
        follow = next((n for n, lead in ((5, 0xFC), (4, 0xF8), (3, 0xF0), (2, 0xE0), (1, 0xC0)) if byte >= lead), 0)
        value = byte & (0x7F if byte < 0x80 else 0xFF if not follow else (1 << (6 - follow)) - 1)
        for next_byte in data[at + 1 : at + 1 + follow]:
            value = value << 6 | next_byte & 0x3F
        text.append(chr(value & 0x7F if byte >= 0x80 and not follow else min(value, 0x10FFFF)))
        at += 1 + follow
    return "".join(text)


def unescaped(text: str, *, wide: bool) -> bytes:
    found, at = bytearray(), 0
    while at < len(text):
        for skip, digits in ((2, 4), (1, 2)):
            part = text[at + skip : at + skip + digits]
            marked = text[at : at + skip].lower() == "%u"[:skip]
            if marked and len(part) == digits and all(c in "0123456789abcdefABCDEF" for c in part):
                if skip == 2 and not wide:
                    continue
                found += chr(int(part, 16)).encode("utf-8", "surrogatepass") if skip == 2 else bytes([int(part, 16)])
                at += skip + digits
                break
        else:
            found += text[at].encode("utf-8", "surrogatepass")
            at += 1
    return bytes(found)


BEST_FIT = str.maketrans({"．": ".", "／": "/", "﹒": ".", "∕": "/", "․": ".", "‥": "..", "＼": "\\"})


def readings(path: str) -> set[str]:
    """Return the path as different kinds of servers could read it."""
    found = {path}
    for _ in range(3):
        found |= {lenient_utf8(unescaped(text, wide=wide)) for text in found for wide in (False, True)}
        found |= {text.translate(BEST_FIT) for text in found}
    return found


def walked(path: str, *, backslash: bool, parameters: bool, blanks: bool) -> list[str]:
    """Return the end of a walk along the path, with dot segments applied."""
    stack: list[str] = []
    for segment in (path.replace("\\", "/") if backslash else path).split("/"):
        name = segment.partition(";")[0] if parameters else segment
        name = "".join(c for c in name if c > " ") if blanks else name
        if name == "..":
            del stack[-1:]
        elif name not in ("", "."):
            stack.append(segment)
    return stack


@settings(max_examples=examples(1500), deadline=None)
@given(paths)
@example("%e0%80%ae%e0%80%ae/private")
@example("%c0%ae%c0%ae%c0%afprivate")
@example("..%c0%2fprivate")
@example("%ae%ae/private")
@example("a/..;/../private")
@example("%00%e2%80%a5")
@example("%00..%23/private")
@example("..%00x/private")
def test_an_allowed_path_stays_under_its_prefix_for_every_parser(tail):
    if not GRANT.explain_http("GET", f"https://api.example.com/v1/public/{tail}").allowed:
        return
    for text in readings(f"/v1/public/{tail}"):
        for backslash, parameters, blanks in itertools.product((False, True), repeat=3):
            end = walked(text, backslash=backslash, parameters=parameters, blanks=blanks)
            assert end[:2] == ["v1", "public"], (tail, text)


@settings(max_examples=examples(300), deadline=None)
@given(paths)
def test_no_spelling_of_another_path_matches_the_prefix(tail):
    for start in ("/v1/", "/v1/publi", "/v1/public", "/", "//v1/public/", "/v1%2fpublic/", "/V1/public/"):
        path = start + tail
        if path.startswith("/v1/public/") or not GRANT.explain_http("GET", f"https://api.example.com{path}").allowed:
            continue
        assert any(text.startswith("/v1/public/") for text in readings(path)), path


def test_non_ascii_text_and_encoded_slashes_are_allowed():
    for tail in ("caf%c3%a9", "a%2Fb", "%e2%80%a6", "%F0%9F%98%80", "100%25", "..config", "..."):
        assert GRANT.explain_http("GET", f"https://api.example.com/v1/public/{tail}").allowed, tail
