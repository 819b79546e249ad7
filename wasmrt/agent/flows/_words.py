"""Words of parameters' names, and the kind of destination that each hints at."""

from __future__ import annotations

ADDRESSES = """
    to cc bcc recipient recipients email emails mail address addresses participant participants attendee attendees
    invitee invitees invite user users username member members channel channels contact contacts phone receiver
    beneficiary payee account iban bic wallet handle person people assignee assignees reviewer reviewers owner group
    team room chat with share guest guests audience customer destination
"""
URLS = """
    url urls uri link links href endpoint host hosts hostname domain server webhook callback remote site website origin
    proxy
"""
PATHS = """
    path paths file files filename filepath folder directory dir bucket repo repository branch database table target
    output
"""
IDS = "id ids uuid guid key issue ticket order number identifier ref"
AMOUNTS = "amount amounts price total sum quantity fee budget salary rate"
BODIES = """
    body text content contents message messages description comment comments note notes html markdown data payload
    reason instructions location place venue summary query question details caption bio
"""
"""Words of parameters that hold what is sent, not where to."""
TIMES = """
    time date day start end when until since from deadline due duration timezone month year hour minute at action mode
    type kind format permission permissions role status state priority level color recurring language locale encoding
"""
"""Words of parameters that say when and how."""
ABOUT = "count limit max min size page offset format type name"
"""Last words that make of a name one about the thing: `file_size` is no file."""
