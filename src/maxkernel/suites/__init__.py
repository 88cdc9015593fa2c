"""The two benchmark suites. Their task files are data: only workers import them."""

from maxkernel.suites.entry import Edition as Edition
from maxkernel.suites.entry import Entry as Entry
from maxkernel.suites.entry import Published as Published
from maxkernel.suites.registry import Suite as Suite
from maxkernel.suites.registry import entry as entry
from maxkernel.suites.registry import expert as expert
from maxkernel.suites.registry import load as load
from maxkernel.suites.registry import names as names
from maxkernel.suites.registry import published as published
from maxkernel.suites.registry import tolerance as tolerance
