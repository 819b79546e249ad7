"""Commands that run and inspect tools, and manage memory and skills."""
