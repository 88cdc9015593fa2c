"""What a user takes home: the bundle, and the table at the end."""

from maxkernel.report.bundle import write_bundle as write_bundle
from maxkernel.report.model import CandidateLine as CandidateLine
from maxkernel.report.model import RunReport as RunReport
from maxkernel.report.model import build_report as build_report
from maxkernel.report.model import describe_confirmation as describe_confirmation
from maxkernel.report.model import quote as quote
from maxkernel.report.model import quote_baseline as quote_baseline
from maxkernel.report.model import quote_time as quote_time
from maxkernel.report.model import xla_in_words as xla_in_words
from maxkernel.report.usage import ModelUse as ModelUse
from maxkernel.report.usage import describe_use as describe_use
from maxkernel.report.usage import model_use as model_use
