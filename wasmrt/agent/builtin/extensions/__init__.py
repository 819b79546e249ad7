"""Extensions: tools that a model can request. Only a user grants them; nothing here extends a grant automatically.

The command line shares `missing` and `installing`; `tools` has the agent's tools.
"""

from __future__ import annotations
