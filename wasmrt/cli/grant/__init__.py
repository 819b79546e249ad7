"""Commands that install tools and decide what they may do."""
