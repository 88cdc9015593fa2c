"""The Python API: what the command line does, as functions."""

from maxkernel.api.calls import judge as judge
from maxkernel.api.calls import load_task as load_task
from maxkernel.api.calls import optimize as optimize
from maxkernel.api.hosting import EngineHost as EngineHost
from maxkernel.api.pairing import open_engine as open_engine
from maxkernel.api.pairing import start_pair as start_pair
from maxkernel.api.runs import RunOptions as RunOptions
from maxkernel.api.runs import reopen as reopen
from maxkernel.api.runs import resume_run as resume_run
from maxkernel.api.runs import start_run as start_run
from maxkernel.api.session import Session as Session
from maxkernel.api.session import open_session as open_session
from maxkernel.api.team import Models as Models
from maxkernel.api.team import change_models as change_models
from maxkernel.api.team import check_models as check_models
from maxkernel.api.team import models_in_force as models_in_force
from maxkernel.api.team import models_of as models_of
