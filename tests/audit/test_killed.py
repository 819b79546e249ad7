"""Processes that are killed while they write receipts lose none that they had answered for, and break nothing.

WASMRT_KILLS sets how many are killed; the figure that is told of is 300.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.audit.conftest import Chain

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("WASMRT_KILLS", "30"))
AT_ONCE = 3

WRITING = """
import sys, os
from pathlib import Path
from tests.audit.conftest import Chain, receipt
writer = Chain(Path(sys.argv[1])).writer()
number = 0
while True:
    number += 1
    writer(receipt(number, call_id=f"{os.getpid()}-{number}", user="u" * (number * 37 % 6000 + 1)))
    os.write(1, b"%d\\n" % number)  # the answer
"""


def answered(process: subprocess.Popen[bytes], answers: int) -> list[str]:
    """Let a process answer some calls, kill it, and return all that it has answered."""
    assert process.stdout is not None
    told = b"".join(process.stdout.readline() for _ in range(answers))
    process.kill()
    told += process.stdout.read()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    return [f"{process.pid}-{number}" for number in told.decode().split("\n")[:-1]]


def test_processes_that_are_killed_lose_no_receipt_of_a_call_that_they_answered(chain: Chain, unmeasured: None) -> None:
    chance = random.Random(20261122)
    wanted: list[str] = []
    left = KILLS
    while left > 0:
        count = min(left, AT_ONCE)
        left -= count
        command = [sys.executable, "-c", WRITING, chain.folder.parent]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) for _ in range(count)]
        for process in running:
            wanted += answered(process, chance.randrange(1, 60))
        found = chain.verified()
        assert found.broken is None, found
    kept = [
        json.loads(line) for file in sorted(chain.folder.glob("receipts-*")) for line in file.read_bytes().splitlines()
    ]
    ids = [record["call_id"] for record in kept if record["type"] == "receipt"]
    assert len(ids) == len(set(ids))
    assert set(wanted) <= set(ids)


WRITING_SOME = WRITING.replace("while True", "while number < 400")


def test_processes_that_write_at_once_make_one_chain(chain: Chain, unmeasured: None) -> None:
    command = [sys.executable, "-c", WRITING_SOME, chain.folder.parent]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    found = chain.verified()
    assert (found.broken, found.notes) == (None, ())
    assert found.records == 4 * 400 + found.segments
