"""The host's side of its workers: started, kept, called, served, ended."""
