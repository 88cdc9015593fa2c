"""The page: the template with the profiles inside. It loads nothing from anywhere."""

from __future__ import annotations

from importlib import resources

import msgspec

from maxkernel.schedule import ProfileView, Roof

PLACE = "/*DATA*/null"


class ProfilePage(msgspec.Struct, frozen=True):
    """What the page shows: one program, or two side by side."""

    task: str
    target: str
    profiles: tuple[ProfileView, ...]
    sources: tuple[str, ...]
    """The kernel's text of each profile; empty for XLA's program."""
    roof: Roof


def render_profile(page: ProfilePage) -> str:
    """One HTML document."""
    template = resources.files("maxkernel.report.profile_html").joinpath("page.html")
    text = msgspec.json.encode(page).decode().replace("<", "\\u003c")
    return template.read_text(encoding="utf-8").replace(PLACE, text)
