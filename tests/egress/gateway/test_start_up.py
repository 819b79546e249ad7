"""Imports that a run without HTTP and without secrets avoids."""

from __future__ import annotations

import subprocess
import sys


def test_third_party_packages_are_only_imported_when_they_are_used(unmeasured: None) -> None:
    program = (
        "import sys, wasmrt.egress.gateway, wasmrt.egress.rates, wasmrt.egress.secrets\n"
        "wasmrt.egress.gateway.EgressGateway(); wasmrt.egress.rates.RateLimiter()\n"
        "heavy = {'h11', 'limits', 'redis', 'http.server', 'keyring', 'cryptography', 'webbrowser'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout.strip() == "[]"
