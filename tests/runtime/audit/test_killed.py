"""Processes killed while they write receipts lose no receipt of a returned call, and leave a valid chain.

`WASMRT_KILLS=300` kills 300.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.audit.conftest import Chain
from tests.tiers import kills

pytestmark = pytest.mark.ci("kills")

ROOT = Path(__file__).parents[3]
KILLS = kills(30)
AT_ONCE = 3
OF_ONE_CHAIN = 30

WRITING = """
import sys, os
from pathlib import Path
from tests.runtime.audit.conftest import Chain, receipt
writer = Chain(Path(sys.argv[1])).writer()
for number in range(1, 1 + int(sys.argv[2])):
    writer(receipt(number, call_id=f"{os.getpid()}-{number}", user="u" * (number * 37 % 1900 + 1)))
    os.write(1, b"%d\\n" % number)  # the result
if sys.argv[3:]:
    sys.stdin.read()  # until it is killed
"""


def answered(process: subprocess.Popen[bytes], answers: int) -> list[str]:
    """Let a process run some calls, kill it, and return the results that it reported."""
    assert process.stdout is not None
    told = b"".join(process.stdout.readline() for _ in range(answers))
    process.kill()
    if process.stdin is not None:
        process.stdin.close()
    told += process.stdout.read()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    return [f"{process.pid}-{number}" for number in told.decode().split("\n")[:-1]]


@pytest.mark.parametrize("chain_number", range(max(1, KILLS // OF_ONE_CHAIN)))
def test_killed_processes_lose_no_receipts_of_returned_calls(chain: Chain, unmeasured: None, chain_number: int) -> None:
    chance = random.Random(chain_number)
    wanted: list[str] = []
    command = [sys.executable, "-c", WRITING, chain.folder.parent, "1000", "and wait"]
    for _ in range(OF_ONE_CHAIN // AT_ONCE):
        running = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) for _ in range(AT_ONCE)
        ]
        for process in running:
            wanted += answered(process, chance.randrange(1, 200))
        found = chain.verified()
        assert found.broken is None, found
    ids = chain.calls()
    assert len(ids) == len(set(ids))
    assert set(wanted) <= set(ids)


def test_concurrent_processes_write_one_log(chain: Chain, unmeasured: None) -> None:
    command = [sys.executable, "-c", WRITING, chain.folder.parent, "400"]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) for _ in range(4)]
    while any(process.poll() is None for process in running):
        assert chain.verified().broken is None
    assert [process.wait(60) for process in running] == [0] * 4
    found, calls = chain.verified(), chain.calls()
    assert (found.broken, found.notes) == (None, ())
    assert len(set(calls)) == len(calls) == 4 * 400
    for process in running:
        own = [call for call in calls if str(call).startswith(f"{process.pid}-")]
        assert own == [f"{process.pid}-{number}" for number in range(1, 401)]
