"""The run file: one SQLite file per run, append-only, resumable after a kill at any instant."""

from maxkernel.store.listing import WITHDRAWN as WITHDRAWN
from maxkernel.store.listing import RunSummary as RunSummary
from maxkernel.store.listing import ending as ending
from maxkernel.store.listing import find_run as find_run
from maxkernel.store.listing import list_runs as list_runs
from maxkernel.store.records import Event as Event
from maxkernel.store.records import RunHeader as RunHeader
from maxkernel.store.runfile import RunFile as RunFile
