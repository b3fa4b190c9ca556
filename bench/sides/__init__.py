"""Both sides of the benchmarks against official SDKs, and what compares them."""
