"""Fixtures of every test: components built by the toolchains of this machine, servers on loopback, and a Redis."""

pytest_plugins = ["tests.guests.fixtures", "tests.egress.world", "tests.rates.redis_server"]
