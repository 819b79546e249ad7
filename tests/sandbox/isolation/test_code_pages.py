"""No process that runs untrusted code can change executable memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.isolation.conftest import needs_seccomp, prepared, process_of
from tests.sandbox.isolation.test_what_a_worker_holds import family_of
from wasmrt import WasmToolRuntime
from wasmrt.core.errors import ConfineError, WorkerCrashedError
from wasmrt.sandbox.isolation.pool import spawn


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PRELUDE = """
import ctypes, mmap, os
from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine._code_pages import check_code_pages, open_own_maps, protect_code_pages

def is_safe():
    try:
        check_code_pages(open_own_maps())
    except ConfineError:
        return False
    return True
"""


def test_callbacks_work_after_their_page_was_made_read_only() -> None:
    script = """
answer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda number: number + 1)
protect_code_pages()
print(is_safe(), answer(1), answer(2), flush=True)
os._exit(0)  # releasing a callback would write to its page
"""
    assert run(script) == "True 2 3"


@pytest.mark.parametrize("shared", [False, True], ids=["a writable page", "a page that is mapped twice"])
def test_code_that_could_be_changed_is_found_and_made_read_only(shared: bool) -> None:
    """The second is the way in which libffi allocates callbacks where writable and executable pages are refused."""
    script = f"""
file = os.memfd_create("code")
os.ftruncate(file, 4096)
flags = mmap.MAP_SHARED if {shared} else mmap.MAP_PRIVATE
writable = mmap.mmap(file, 4096, flags, mmap.PROT_READ | mmap.PROT_WRITE | (0 if {shared} else mmap.PROT_EXEC))
writable[:4] = b"code"
code = mmap.mmap(file, 4096, flags, mmap.PROT_READ | mmap.PROT_EXEC) if {shared} else writable
before = is_safe()
protect_code_pages()
after = is_safe()
if {shared}:
    writable[:4] = b"evil"
print(before, after, code[:4].decode())
"""
    assert run(script) == "False True code"


@pytest.fixture
def changed_start(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the test change the start of zygotes."""
    monkeypatch.setattr(spawn, "_ahead", [])
    return monkeypatch


def start_with(patch: pytest.MonkeyPatch, code: str) -> None:
    """Run `code` in the zygote before it serves."""
    boot = spawn._BOOT.replace("main()\n", f"{code}\nmain()\n")
    assert boot != spawn._BOOT
    patch.setattr(spawn, "_BOOT", boot)


def test_workers_of_a_component_have_no_code_that_they_can_change(runtime: WasmToolRuntime) -> None:
    echo = prepared(runtime)
    echo.execute({})
    for process in family_of(process_of(echo)):
        if not os.access(f"/proc/{process}/maps", os.R_OK):
            pytest.skip("only root may read the mappings of a worker")
        rights = {line.split()[1] for line in Path(f"/proc/{process}/maps").read_text().splitlines()}
        assert rights & {"r-xp"}
        assert not {one for one in rights if "x" in one and ("w" in one or "s" in one)}


def test_a_template_with_code_that_can_be_changed_does_not_start(changed_start: pytest.MonkeyPatch) -> None:
    code = """
import mmap
from wasmrt.sandbox.isolation.worker import zygote
kept = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
zygote.protect_code_pages = lambda: None
"""
    start_with(changed_start, code)
    with WasmToolRuntime() as runtime, pytest.raises(ConfineError, match="writable and executable"):
        prepared(runtime)


@needs_seccomp
@pytest.mark.parametrize(
    ("attack", "ending"),
    [
        ("ctypes.memset(page, 0xCC, 16)", signal.SIGSEGV),
        ("libc.mprotect(ctypes.c_void_p(page & -4096), 4096, 7)", signal.SIGSYS),
        ("libc.mprotect(ctypes.c_void_p(page & -4096), 4096, 5)", signal.SIGSYS),
        ("libc.mmap(None, 4096, 7, 0x22, -1, 0)", signal.SIGSYS),
        ("libc.pkey_mprotect(ctypes.c_void_p(page & -4096), 4096, 7, 0)", signal.SIGSYS),
    ],
    ids=["writes to a callback", "mprotect rwx", "mprotect rx", "mmap rwx", "pkey_mprotect"],
)
def test_a_compromised_worker_that_makes_code_is_killed(
    changed_start: pytest.MonkeyPatch, attack: str, ending: signal.Signals
) -> None:
    code = f"""
import ctypes
from wasmrt.sandbox.guest.engine import _linker
from wasmrt.sandbox.isolation.worker import run
libc = ctypes.CDLL(None)
page = ctypes.cast(_linker._TRAMPOLINE, ctypes.c_void_p).value
run.RunWorker._call = lambda worker, frame: {attack}
"""
    start_with(changed_start, code)
    with WasmToolRuntime() as runtime:
        echo = prepared(runtime)
        with pytest.raises(WorkerCrashedError) as caught:
            echo.execute({})
    assert caught.value.signal == ending
