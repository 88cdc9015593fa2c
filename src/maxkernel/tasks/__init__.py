"""Loads tasks as text. Nothing here runs or imports a task."""

from maxkernel.tasks.load import load_task as load_task
from maxkernel.tasks.load import task_from_text as task_from_text
