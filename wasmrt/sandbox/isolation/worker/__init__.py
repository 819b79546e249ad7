"""The processes that guests live in, from inside: zygote, template, run worker, compile worker."""
