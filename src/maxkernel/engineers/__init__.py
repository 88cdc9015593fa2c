"""Engineers propose kernels: role protocols, teams, and the built-in team that needs no model."""
