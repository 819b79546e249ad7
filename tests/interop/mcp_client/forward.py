"""Pass a run of the suite to the client that listens on a socket: `python -I -S forward.py SOCKET URL`.

Imports almost nothing, since the suite starts it dozens of times at once.
"""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    variables = {name: value for name, value in os.environ.items() if name.startswith("MCP_CONFORMANCE_")}
    client.sendall(json.dumps({"url": sys.argv[2], "environ": variables}).encode() + b"\n")
    said = client.makefile("rb").read()
text, _, code = said.rpartition(b"\0")
sys.stderr.buffer.write(text)
sys.exit(int(code or 1))
