"""The studio: runs, designs and pairing sessions in a browser. It decides nothing by itself."""

from maxkernel.web.export import export_run as export_run
