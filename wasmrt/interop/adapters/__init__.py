"""Adapters: a registry's tools for agent frameworks, and the frameworks' function tools for a registry.

Each module imports its framework. No other code imports these modules.
"""
