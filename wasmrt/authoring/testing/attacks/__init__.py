"""Hostile tools and servers, each a small component with its expected outcome.

`wasmrt doctor --attack` runs them on an installation, and the tests of wasmrt run them too.
"""

from wasmrt.authoring.testing.attacks._answers import ANSWERS, VALUES
from wasmrt.authoring.testing.attacks._attack import ONLY_THE_CLOCK, OVERRUN_SECONDS, Attack, Outcome, run
from wasmrt.authoring.testing.attacks._build import Body, tool
from wasmrt.authoring.testing.attacks._components import COMPONENTS
from wasmrt.authoring.testing.attacks._host import HOST, REACH
from wasmrt.authoring.testing.attacks._resources import CPU, MEMORY
from wasmrt.authoring.testing.attacks._servers import SERVERS

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
