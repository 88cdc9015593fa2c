"""The picture of a profile as one self-contained page."""

from maxkernel.report.profile_html.page import ProfilePage as ProfilePage
from maxkernel.report.profile_html.page import render_profile as render_profile
