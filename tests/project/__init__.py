"""Checks of the source tree. They do not apply if the tests run on an installed wheel."""
