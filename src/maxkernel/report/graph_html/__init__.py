"""A run's design graph for people: as data, and as one page that needs no network."""

from maxkernel.report.graph_html.model import GraphView as GraphView
from maxkernel.report.graph_html.model import NodeView as NodeView
from maxkernel.report.graph_html.model import view_graph as view_graph
from maxkernel.report.graph_html.page import render_page as render_page
