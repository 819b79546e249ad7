"""Hostile tools and servers, one small component each, and the end every one of them must come to.

`wasmrt doctor --attack` lets them loose on an installation; our own tests do the same and more.
"""

from wasmrt.authoring.testing.attacks._answers import ANSWERS
from wasmrt.authoring.testing.attacks._attack import ONLY_THE_CLOCK, OVERRUN_SECONDS, Attack, Outcome, run
from wasmrt.authoring.testing.attacks._build import Body, tool
from wasmrt.authoring.testing.attacks._components import COMPONENTS
from wasmrt.authoring.testing.attacks._cpu import CPU
from wasmrt.authoring.testing.attacks._host import HOST
from wasmrt.authoring.testing.attacks._memory import MEMORY
from wasmrt.authoring.testing.attacks._reach import REACH
from wasmrt.authoring.testing.attacks._servers import SERVERS
from wasmrt.authoring.testing.attacks._values import VALUES

__all__ = [
    "ANSWERS",
    "ATTACKS",
    "COMPONENTS",
    "CPU",
    "HOST",
    "MEMORY",
    "ONLY_THE_CLOCK",
    "OVERRUN_SECONDS",
    "REACH",
    "SERVERS",
    "VALUES",
    "Attack",
    "Body",
    "Outcome",
    "run",
    "tool",
]

ATTACKS: tuple[Attack, ...] = (*CPU, *MEMORY, *HOST, *REACH, *ANSWERS, *VALUES, *SERVERS, *COMPONENTS)
