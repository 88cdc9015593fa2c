"""Twenty-four workloads of current open models, `w01` to `w24`, and five variants (`w05b`, ...)."""
