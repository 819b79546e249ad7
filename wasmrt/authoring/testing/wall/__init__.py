"""The forbidden calls of confined processes, tried one by one, each after a control that shows it is possible.

`wasmrt doctor --attack --wall` tries them on an installation; our own tests do the same.
"""

from wasmrt.authoring.testing.wall._attempts import ATTEMPTS, Attempt, Scene
from wasmrt.authoring.testing.wall._rows import KINDS, Row, run_wall

__all__ = ["ATTEMPTS", "KINDS", "Attempt", "Row", "Scene", "run_wall"]
