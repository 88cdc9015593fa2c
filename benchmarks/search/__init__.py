"""Benchmarks of the graph search."""
