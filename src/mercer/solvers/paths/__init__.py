"""Leave-one-out decision values of solved problems, without one fit for each row."""

from mercer.solvers.paths.loo_values import LooPass as LooPass
