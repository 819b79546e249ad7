"""Adapters: a registry's tools for the frameworks that agents are built with, and their function tools for a registry.

One module a framework, which imports it; none is imported by anything else.
"""
