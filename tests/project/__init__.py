"""Checks of the tree itself, which mean nothing where the tests run on an installed wheel."""
