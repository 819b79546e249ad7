from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sandbox.engine.conftest import LIMITS, CountingCall, Guest, agent_host, limits
from tests.tiers import examples
from wasmrt.core.errors import InternalError, UnknownImportError
from wasmrt.sandbox.guest.engine import Component, EngineFault, LowerError, Sandbox, TrapCode


def test_strings_are_passed_in_both_directions(guest: Guest) -> None:
    assert guest.call("echo", "größe 🦦") == "größe 🦦"
    assert guest.call("echo", "") == ""


def test_bytes_and_numbers_are_passed_unchanged(guest: Guest) -> None:
    body = bytes(range(256)) * 64
    assert guest.call("echo-bytes", body) == body
    assert guest.call("echo-words", [0, 1, 2**32 - 1]) == [0, 1, 2**32 - 1]
    assert guest.call("echo-bytes", b"") == b""


def test_imports_reach_the_host_functions(guest: Guest) -> None:
    assert guest.call("now") == 12345
    assert guest.call("ws", "a.md") == "text of a.md"
    assert guest.call("ws", "missing") is None


def test_calls_from_eight_threads_have_fresh_stores(guest: Guest) -> None:
    answers: list[int] = []

    def work() -> None:
        answers.extend(guest.call("count") for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 400


@pytest.mark.parametrize(
    ("export", "code"),
    [
        ("unreachable", TrapCode.UNREACHABLE),
        ("outside", TrapCode.MEMORY_OUT_OF_BOUNDS),
        ("divide", TrapCode.INTEGER_DIVISION_BY_ZERO),
        ("recurse", TrapCode.STACK_OVERFLOW),
        ("spin", TrapCode.OUT_OF_FUEL),
    ],
)
def test_traps_are_distinguished_by_their_code(guest: Guest, export: str, code: TrapCode) -> None:
    with pytest.raises(EngineFault) as caught:
        guest.call(export)
    assert caught.value.code == code
    assert guest.call("count") == 1


def test_the_epoch_ends_a_guest_at_its_deadline(component: Component) -> None:
    guest = Guest(component, agent_host(lambda call, path: None), limits(fuel=None))
    call = CountingCall(seconds=0.05)
    with pytest.raises(EngineFault):
        guest.call("spin", call=call)
    assert isinstance(call.failure, TimeoutError)


@pytest.mark.parametrize("error", [ValueError("secret detail"), KeyboardInterrupt(), SystemExit(3), MemoryError()])
def test_exceptions_of_host_functions_only_affect_their_call(component: Component, error: BaseException) -> None:
    def broken(call: CountingCall, path: str) -> str:
        raise error

    guest = Guest(component, agent_host(broken))
    call = CountingCall()
    with pytest.raises(EngineFault) as caught:
        guest.call("ws", "a", call=call)
    assert call.failure is error
    assert "secret detail" not in caught.value.message
    assert guest.call("echo", "still here") == "still here"


def test_failures_in_concurrent_threads_are_not_mixed(component: Component) -> None:
    def broken(call: CountingCall, path: str) -> str:
        raise ValueError(path)

    guest = Guest(component, agent_host(broken))
    wrong: list[object] = []

    def work(name: str) -> None:
        for _ in range(100):
            call = CountingCall()
            with pytest.raises(EngineFault):
                guest.call("ws", name, call=call)
            if str(call.failure) != name:
                wrong.append(call.failure)

    threads = [threading.Thread(target=work, args=(f"thread-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_host_result_of_the_wrong_type_stops_only_that_call(component: Component) -> None:
    guest = Guest(component, agent_host(lambda call, path: 7))  # type: ignore[arg-type, return-value]
    call = CountingCall()
    with pytest.raises(EngineFault):
        guest.call("ws", "a", call=call)
    assert isinstance(call.failure, LowerError)


def test_a_value_that_does_not_fit_never_reaches_the_guest(guest: Guest) -> None:
    for export, value in (("echo", 5), ("echo", "\ud800"), ("echo-bytes", "text"), ("echo-words", [2**32])):
        with pytest.raises(LowerError):
            guest.call(export, value)
    with pytest.raises(LowerError):
        guest.call("echo")


def test_an_import_with_a_different_type_is_rejected_when_linking(component: Component) -> None:
    host = agent_host(lambda call, path: None)._replace(signatures={"now-millis": "func() -> u32"})
    with pytest.raises(UnknownImportError, match="now-millis with a type that differs"):
        Guest(component, host)


def test_a_sandbox_without_an_instance_raises_instead_of_crashing(guest: Guest) -> None:
    sandbox = Sandbox(guest.linker, LIMITS, CountingCall())
    with pytest.raises(InternalError):
        sandbox.call(guest.exports["count"])
    sandbox.close()
    with pytest.raises(InternalError):
        sandbox.call(guest.exports["count"])


def test_fuel_used_is_available_after_the_store_is_dropped(guest: Guest) -> None:
    sandbox = Sandbox(guest.linker, LIMITS, CountingCall())
    sandbox.instantiate()
    sandbox.call(guest.exports["echo"], "x")
    sandbox.close()
    assert 0 < sandbox.fuel_used < 1000


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=200), st.binary(max_size=2000), st.text(max_size=500))
def test_values_round_trip_through_the_guest(words: list[int], body: bytes, text: str) -> None:
    guest = _shared_guest()
    assert guest.call("echo-words", words) == words
    assert guest.call("echo-bytes", body) == body
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert guest.call("echo", text) == text


_kept: list[Guest] = []


def _shared_guest() -> Guest:
    if not _kept:
        from tests.sandbox.engine.conftest import PLAIN, assembled
        from wasmrt.sandbox.guest.compiler import Compiler
        from wasmrt.sandbox.guest.settings import EngineConfig

        compiler = Compiler(EngineConfig(), keep=True, disk=None)
        _kept.append(Guest(compiler.compile(assembled(PLAIN), "kept"), agent_host(lambda call, path: None)))
    return _kept[0]
