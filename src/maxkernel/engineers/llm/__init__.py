"""A team of language models: any provider, hard budgets, every word on record.

Nothing of a provider's SDK is imported before it is known that a question will be asked.
"""

from maxkernel.engineers.llm.budget import LlmBudget as LlmBudget
from maxkernel.engineers.llm.budget import Meter as Meter
from maxkernel.engineers.llm.budget import Spent as Spent
from maxkernel.engineers.llm.calls import Call as Call
from maxkernel.engineers.llm.calls import calls_of as calls_of
from maxkernel.engineers.llm.calls import holds_secret as holds_secret
from maxkernel.engineers.llm.calls import read_traffic as read_traffic
from maxkernel.engineers.llm.calls import readable as readable
from maxkernel.engineers.llm.calls import record_into as record_into
from maxkernel.engineers.llm.calls import spent_by as spent_by
from maxkernel.engineers.llm.calls import write_traffic as write_traffic
from maxkernel.engineers.llm.desk import Desk as Desk
from maxkernel.engineers.llm.forecast import Forecast as Forecast
from maxkernel.engineers.llm.forecast import forecast as forecast
from maxkernel.engineers.llm.models import KEYS as KEYS
from maxkernel.engineers.llm.models import ModelSpec as ModelSpec
from maxkernel.engineers.llm.models import ProviderStatus as ProviderStatus
from maxkernel.engineers.llm.models import check_budget as check_budget
from maxkernel.engineers.llm.models import check_model as check_model
from maxkernel.engineers.llm.models import parse_model as parse_model
from maxkernel.engineers.llm.models import price_of as price_of
from maxkernel.engineers.llm.models import providers as providers
from maxkernel.engineers.llm.question import Hear as Hear
from maxkernel.engineers.llm.question import Words as Words
from maxkernel.engineers.llm.reach import count_models as count_models
from maxkernel.engineers.llm.robust import Patience as Patience
from maxkernel.engineers.llm.staff import DEFAULT as DEFAULT
from maxkernel.engineers.llm.staff import ROLES as ROLES
from maxkernel.engineers.llm.staff import LlmTeam as LlmTeam
from maxkernel.engineers.llm.staff import chosen_models as chosen_models
from maxkernel.engineers.llm.staff import llm_team as llm_team
from maxkernel.engineers.llm.staff import probe as probe
from maxkernel.engineers.llm.staff import require_models as require_models
from maxkernel.engineers.llm.staff import team_for_run as team_for_run
from maxkernel.engineers.llm.tools import TOOLS as TOOLS
from maxkernel.engineers.llm.tools import Toolbox as Toolbox
from maxkernel.engineers.llm.warm import warm_up as warm_up
