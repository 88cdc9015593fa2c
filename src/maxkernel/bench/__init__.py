"""Runs a suite and keeps the table: every task judged alike, every number with its source."""

from maxkernel.bench.compare import Change as Change
from maxkernel.bench.compare import Comparison as Comparison
from maxkernel.bench.compare import compare as compare
from maxkernel.bench.compare import compare_tables as compare_tables
from maxkernel.bench.result import BenchResult as BenchResult
from maxkernel.bench.result import Row as Row
from maxkernel.bench.result import Settings as Settings
from maxkernel.bench.result import load_result as load_result
from maxkernel.bench.run import AT_ONCE as AT_ONCE
from maxkernel.bench.run import run_bench as run_bench
from maxkernel.bench.summary import Summary as Summary
from maxkernel.bench.summary import summarise as summarise
from maxkernel.bench.task import Method as Method
