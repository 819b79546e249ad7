"""Large texts are looked through by faster means first. They change nothing of what is found."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wasmrt.errors import InternalError
from wasmrt.guest.engine import make_kernel
from wasmrt.leaks import LeakDetector, Rule, prove
from wasmrt.leaks._builtin import builtin_rules
from wasmrt.leaks._engine import RuleEngine
from wasmrt.leaks._quick import _SAME, QuickGate
from wasmrt.leaks._sieve import Kernel, Sieve, WordTable

SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
PLAIN = b'{"id": 12345, "name": "a plain name", "tags": ["one", "two"], "note": "nothing to see"},\n' * 800
PIECE = 256 * 1024
needs_hyperscan = pytest.mark.skipif(importlib.util.find_spec("hyperscan") is None, reason="hyperscan is not installed")


class Counted:
    """Kernels that count their calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> Kernel:
        kernel, counted = make_kernel(text), self

        class One:
            write = staticmethod(kernel.write)

            def call(self, name: str, /, *numbers: int) -> int:
                counted.calls += 1
                return kernel.call(name, *numbers)

        return One()


def warmed(make: Callable[[str], Kernel]) -> LeakDetector:
    detector = LeakDetector(kernel=make)
    while_cold = detector.primed({"token": SECRET})
    for _ in range(1 + (2 << 20) // len(PLAIN)):
        assert not while_cold.scan_bytes(PLAIN).matches
    return detector


COUNTED = Counted()
DETECTOR = warmed(COUNTED)
WITHOUT = LeakDetector()


def gaps(text: bytes, gap: bytes) -> bytes:
    return gap.join(bytes([byte]) for byte in text)


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda secret: secret,
    "upper case": bytes.upper,
    "reversed": lambda secret: secret[::-1],
    "hex": lambda secret: secret.hex().encode(),
    "base64": base64.b64encode,
    "base64 of more": lambda secret: base64.b64encode(b"user:" + secret + b" and so on and on and on"),
    "base64 in base64": lambda secret: base64.b64encode(b"x" * 40 + base64.b64encode(b"user:" + secret + b"y" * 40)),
    "spread": lambda secret: gaps(secret, b", "),
    "spread far": lambda secret: gaps(secret, b" \n" * 40),
    "numbers": lambda secret: b", ".join(b"%d" % byte for byte in secret),
    "numbers far apart": lambda secret: (b",\r\n" + b" " * 14).join(b"%d" % byte for byte in secret),
    "hexadecimal numbers": lambda secret: b" ".join(b"0x%02x" % byte for byte in secret),
    "numbers of UTF-16": lambda secret: b" ".join(b"%d" % byte for byte in secret.decode().encode("utf-16-le")),
    "percent": lambda secret: b"".join(b"%%%02x" % byte for byte in secret),
}


@settings(max_examples=120, deadline=None)
@given(
    way=st.sampled_from(sorted(WAYS)),
    near=st.sampled_from([0, 64, 4096, PIECE // 2, PIECE, PIECE + 64, PIECE + 4096]),
    shift=st.integers(-70, 70),
    size=st.integers(PIECE // 2, PIECE * 2 + 100),
)
def test_a_secret_is_found_in_a_large_text_wherever_it_stands(way: str, near: int, shift: int, size: int) -> None:
    planted = b"; " + WAYS[way](SECRET.encode()) + b" ;"
    at = max(0, min(near + shift, size))
    filler = PLAIN * (size // len(PLAIN) + 1)
    text = filler[:at] + planted + filler[at:size]
    before = COUNTED.calls
    found = DETECTOR.primed({"token": SECRET}).scan_bytes(text)
    assert COUNTED.calls > before
    assert "secret:token" in {match.rule for match in found.matches}
    assert found == WITHOUT.primed({"token": SECRET}).scan_bytes(text)


@settings(max_examples=60, deadline=None)
@given(
    start=st.integers(0, len(SECRET) - 8),
    length=st.integers(8, 12),
    at=st.integers(PIECE - 20, PIECE + 20) | st.integers(0, 200),
)
def test_a_piece_of_a_secret_is_found_in_a_large_text(start: int, length: int, at: int) -> None:
    filler = PLAIN * 4
    text = filler[:at] + SECRET[start : start + length].encode() + filler[at:]
    found = DETECTOR.primed({"token": SECRET}).strict.scan_bytes(text)
    assert found == WITHOUT.primed({"token": SECRET}).strict.scan_bytes(text)
    assert found.matches


@settings(max_examples=200, deadline=None)
@given(
    words=st.lists(st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=5, max_size=12), min_size=1, max_size=40),
    noise=st.binary(max_size=9000),
    pick=st.integers(0),
    at=st.integers(0, 9000),
)
def test_what_is_sifted_out_holds_no_word(words: list[str], noise: bytes, pick: int, at: int) -> None:
    chosen = [word[:8] if len(word) >= 8 else word[:5] for word in words]
    sieve = Sieve(make_kernel)
    table = WordTable(word.encode() for word in chosen)
    planted = chosen[pick % len(chosen)].upper().encode()
    assert sieve.sift(table, noise[:at] + gaps(planted, b"-\xff ") + noise[at:]).words


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4095, 4096, 4097, PIECE - 1, PIECE, PIECE + 1])
def test_a_plain_text_of_any_size_is_sifted_out(size: int) -> None:
    table = WordTable([b"zq9kt7ab"])
    assert Sieve(make_kernel).sift(table, b"a word or 2. " * (size // 13) + b"." * (size % 13)) == (False, False)


@pytest.mark.parametrize("at", [0, 40, 41, 64 - 23, 64 - 24, 63, 64, 4096 - 12, PIECE - 12, PIECE])
def test_something_packed_is_told_from_something_shorter(at: int) -> None:
    table, sieve = WordTable([b"zq9kt7ab"]), Sieve(make_kernel)
    for run in (b"aB3+/_-x" * 3, b"1, 2, 3, 4, 5, 6, 7, 8", b"0x1f 0x2f 0x3f 0x4f 0x5f 0x6f 0x7f 0x8f"):
        assert sieve.sift(table, b". " * (at // 2) + b" " * (at % 2) + run + b" .").packed
    assert not sieve.sift(table, b". " * (at // 2) + b" " * (at % 2) + (b"aB3+/_-x" * 3)[:23] + b" .").packed


def test_a_secret_without_many_letters_is_looked_for_as_ever() -> None:
    secret = "+-+" + "!%9$#" * 3 + "=="
    text = PLAIN * 4 + secret.encode()
    assert [m.rule for m in DETECTOR.primed({"odd": secret}).scan_bytes(text).matches] == ["secret:odd"]


def test_a_process_that_can_have_no_kernel_goes_on_without() -> None:
    asked: list[str] = []

    def refuse(text: str) -> Kernel:
        asked.append(text)
        raise InternalError("no address space is left")

    detector = warmed(refuse)
    for _ in range(3):
        assert detector.primed({"token": SECRET}).scan_bytes(PLAIN + SECRET.encode()).matches
    assert len(asked) == 1


def test_a_forked_process_makes_kernels_of_its_own() -> None:
    script = """
import os
from wasmrt.guest.engine import make_kernel
from wasmrt.leaks._sieve import Sieve, WordTable
sieve, table = Sieve(make_kernel), WordTable([b"zq9kt7ab"])
assert sieve.sift(table, b"-Z-q-9-k-T-7-a-b-").words
child = os.fork()
right = sieve.sift(table, b"-Z-q-9-k-T-7-a-b-").words and not sieve.sift(table, b"nothing").words
if child:
    right = right and os.waitpid(child, 0)[1] == 0
os._exit(0 if right else 1)
"""
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", script], check=True, timeout=60)


def test_many_threads_may_scan_large_texts_at_once() -> None:
    wrong: list[bool] = []

    def scan(secret: bool) -> None:
        for _ in range(10):
            text = PLAIN * 2 + (SECRET.encode() if secret else b"")
            if bool(DETECTOR.primed({"token": SECRET}).scan_bytes(text).matches) != secret:
                wrong.append(secret)

    threads = [threading.Thread(target=scan, args=(number % 2 == 0,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _rule() -> Rule:
    return Rule(id="nimbus", source="this test", token="nimbus-[0-9a-f]{12}", entropy=1.0)


def test_where_no_thread_can_be_had_a_large_text_is_scanned_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from wasmrt.leaks import _ahead

    class NoThread:
        allocate_lock = staticmethod(_ahead._thread.allocate_lock)

        @staticmethod
        def start_new_thread(*_: object) -> int:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_ahead, "_thread", NoThread)
    monkeypatch.setattr(_ahead, "_helpers", [_ahead._Helper()])
    text = PLAIN * 12
    assert not DETECTOR.primed({"token": SECRET}).scan_bytes(text).matches
    assert DETECTOR.primed({"token": SECRET}).scan_bytes(text + SECRET.encode()).matches


def test_a_search_on_another_thread_that_breaks_is_done_again_here() -> None:
    from wasmrt.leaks._ahead import Ahead
    from wasmrt.leaks._gate import Touched

    def broken(data: bytes) -> Touched:
        raise MemoryError

    for _ in range(3):
        ahead = Ahead(broken, b"x", Touched())
        with contextlib.suppress(MemoryError):  # where this thread came first
            assert ahead.answer() == Touched()
    assert Ahead(lambda data: data == b"y", b"y", otherwise=False).answer()


@pytest.fixture(scope="module")
def quick() -> QuickGate:
    return QuickGate(tuple(builtin_rules().gates()))


@needs_hyperscan
def test_the_quick_gate_is_touched_by_every_rule(quick: QuickGate) -> None:
    missed = [rule.id for rule in builtin_rules() if not quick.touches(PLAIN + prove(rule).encode(), 256)]
    assert missed == []


@needs_hyperscan
def test_the_quick_gate_is_not_touched_by_plain_text(quick: QuickGate) -> None:
    assert not quick.touches(PLAIN * 8, 256)


@needs_hyperscan
@settings(max_examples=150, deadline=None)
@given(drawn=st.data(), before=st.binary(max_size=300), after=st.binary(max_size=300))
def test_the_quick_gate_says_what_re2_says(drawn: st.DataObject, before: bytes, after: bytes) -> None:
    gates = tuple(builtin_rules().gates())
    gate = drawn.draw(st.sampled_from(gates)).encode("ascii")
    inside = drawn.draw(st.from_regex(gate, fullmatch=True))
    cut = inside[: drawn.draw(st.integers(0, len(inside)))]
    quick, re2_set = _both(gates)
    for text in (before + inside + after, before + cut + after):
        assert quick.touches(text, 256) == bool(re2_set.Match(text))


@needs_hyperscan
def test_every_gate_that_ships_means_the_same_to_both() -> None:
    assert [gate for gate in builtin_rules().gates() if not _SAME.fullmatch(gate)] == []


@needs_hyperscan
@pytest.mark.parametrize(
    ("gate", "text"),
    [("nimbus[^\\s]", "nimbus\x0b"), ("nimbus[\\S]", "nimbus\x0b"), ("nimbus[x]{08}", "nimbusx{08}")],
    ids=["vertical tab", "vertical tab inside", "leading zero"],
)
def test_a_gate_that_perl_reads_in_another_way_stays_with_re2(gate: str, text: str) -> None:
    rule = Rule(id="nimbus", source="this test", pattern="(nimbus.{1,9}q7Zk2Lw9)", gates=(gate,), entropy=1.0)
    detector = LeakDetector(rules=[rule])
    _settle(detector)
    planted = (text + " q7Zk" + "2Lw9").encode()
    assert [m.rule for m in detector.scan_bytes(PLAIN * 3 + planted + PLAIN).matches] == ["nimbus"]


@needs_hyperscan
def test_a_password_with_a_vertical_tab_is_found_in_a_large_text() -> None:
    detector = LeakDetector()
    _settle(detector)
    url = b"postgres://admin:S3cr\x0bet9" + b"xQz7Lk2vB@db.example.net/x"
    assert "url-credentials" in {m.rule for m in detector.scan_bytes(PLAIN * 3 + url).matches}


@needs_hyperscan
def test_a_flood_is_forgiven_after_a_plain_stretch_whoever_looked_at_that() -> None:
    with_quick, without = LeakDetector(), LeakDetector()
    with_quick._engine, without._engine = RuleEngine(builtin_rules()), RuleEngine(builtin_rules())
    without._engine._quick._seen_bytes = 1 << 60  # it is past the point at which it would be made
    _settle(with_quick)
    stride = 65536
    gates = without._engine._prepare()
    names = {name for rule in builtin_rules() for name in rule.names if name.replace("_", "").isalnum()}
    flood = (" ".join(sorted(names)) + "\n").encode() * 100
    head, touched = b"", set[int]()
    for name in sorted(names, key=lambda name: -len(gates.Match(name.encode()) or ()) / (len(name) + 1)):
        more = set(gates.Match(name.encode()) or ())
        if not more <= touched and len(head) + len(name) < 254:
            head, touched = head + b" " + name.encode(), touched | more
    named = next(rule for rule in builtin_rules() if rule.id == "pinecone-legacy-key")  # known by the name beside it
    secret = b"\n" + prove(named).encode() + b"\n"
    plain = b"plain words here. \n" * (16 * stride // 19 + 1)
    flooded = plain[: 12 * stride] + (flood * 4)[: 4 * stride]
    text = flooded + plain[:stride] + plain[:257] + head + plain[: stride // 2] + secret + plain[: 3 * stride]
    found = []
    for detector in (with_quick, without):
        stream = detector.primed({}).stream()
        for at in range(0, len(text), 8192):
            stream.feed(text[at : at + 8192])
        found.append(stream.finish())
    assert named.id in {match.rule for match in found[1].matches}
    assert found[0] == found[1]


def _settle(detector: LeakDetector) -> None:
    """Scan so much that the quick gate is made, and wait for it."""
    for _ in range(1 + (4 << 20) // len(PLAIN)):
        assert not detector.scan_bytes(PLAIN).matches
    for thread in threading.enumerate():
        if thread.name == "wasmrt-gates":
            thread.join()


@cache
def _both(gates: tuple[str, ...]) -> tuple[QuickGate, Any]:
    return QuickGate(gates), RuleEngine(builtin_rules())._prepare()


@needs_hyperscan
def test_the_quick_gate_is_made_after_a_while_and_finds_the_same() -> None:
    rule = _rule()
    detector = LeakDetector(rules=[rule])
    _settle(detector)
    text = PLAIN * 30
    middle = 8 * 65536
    for at in (0, 65530, middle - 9, middle, len(text) // 2, 16 * 65536 - 9, 16 * 65536 + 1, len(text)):
        found = detector.scan_bytes(text[:at] + b" nimbus-" + b"0a1b2c3d4e5f" + b" " + text[at:])
        assert [(m.rule, m.start) for m in found.matches] == [(rule.id, at + 1)]
    assert not detector.scan_bytes(text).matches


def test_where_there_is_no_hyperscan_re2_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    detector = LeakDetector(rules=[_rule()])
    for _ in range(2 + (4 << 20) // len(PLAIN)):
        assert len(detector.scan_bytes(PLAIN + b" nimbus-" + b"0a1b2c3d4e5f" + b" ").matches) == 1
    assert [thread.name for thread in threading.enumerate() if thread.name == "wasmrt-gates"] in ([], ["wasmrt-gates"])
