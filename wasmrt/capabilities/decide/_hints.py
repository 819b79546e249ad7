"""The line that would allow what was refused, as a decision's hint spells it.

`add to SECTION: VALUE`, or `add "SECTION": VALUE` where the whole section is missing; VALUE is the JSON to add.
"""

from __future__ import annotations

import json
from typing import Any


def line_hint(section: str, value: str) -> str:
    """The hint that names a line for a section that is there: `value` is JSON."""
    return f"add to {section}: {value}"


def section_hint(section: str, value: Any) -> str:
    """The hint that names a whole section."""
    return f'add "{section}": {json.dumps(value)}'
