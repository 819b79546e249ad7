"""Find unclear phrasing in the project's text."""
