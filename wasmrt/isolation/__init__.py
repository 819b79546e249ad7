"""Processes that can do nothing: the confinement of workers and programs."""
