"""The code of the confined processes: zygote, template, run worker, compile worker."""
