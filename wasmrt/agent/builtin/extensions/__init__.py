"""Extensions: tools that an agent may ask for. A person grants, and nothing here widens a grant by itself.

`facts`, `missing` and `installing` are what the command line has of an install too; `tools` are the agent's.
"""

from __future__ import annotations
