"""Solvers of quadratic duals, one algorithm a file."""
