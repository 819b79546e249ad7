"""What every test may use: real components built by the toolchains of this machine, and a Redis."""

pytest_plugins = ["tests.guests.fixtures", "tests.net.redis_server"]
