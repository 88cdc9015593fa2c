"""Where workers run. The control process hands in requests and gets replies, never exceptions."""

from maxkernel.executor.base import Executor as Executor
from maxkernel.executor.choose import open_executor as open_executor
from maxkernel.executor.local import LocalExecutor as LocalExecutor
from maxkernel.executor.local import local_executor as local_executor
