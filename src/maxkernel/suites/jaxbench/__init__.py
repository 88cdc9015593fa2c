"""JaxBench: fifty TPU kernel tasks, `1p` to `50k`."""
