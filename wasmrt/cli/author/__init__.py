"""Commands that create, build, test and package tools."""
