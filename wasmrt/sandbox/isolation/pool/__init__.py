"""The host's side of worker processes: start, pool, call, serve and end them."""
