"""Rows as the solvers of linear machines read them: consecutive blocks, and products with all of them."""
