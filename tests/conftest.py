"""What every test may use: `guest("rust")`, real components built by the toolchains of this machine."""

pytest_plugins = ["tests.guests.fixtures"]
