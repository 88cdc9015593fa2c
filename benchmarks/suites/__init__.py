"""Sweeps over whole suites, too slow for the tests."""
