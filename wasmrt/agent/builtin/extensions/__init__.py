"""Extensions: tools that a model can request. Only a user can grant them; this package never extends a grant.

`tools` has the agent's tools. The command line also uses `missing` and `installing`.
"""

from __future__ import annotations
