"""Try the forbidden system calls of confined processes, each with an unconfined process as a control.

`wasmrt doctor --attack --wall` tries them on an installation, and the tests of wasmrt do too.
"""

from wasmrt.authoring.testing.wall._attempts import ATTEMPTS, Attempt, Scene
from wasmrt.authoring.testing.wall._trial import KINDS, Row, run_wall

__all__ = ["ATTEMPTS", "KINDS", "Attempt", "Row", "Scene", "run_wall"]
