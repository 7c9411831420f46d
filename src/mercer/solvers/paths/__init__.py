"""Leave-one-out decision values of solved problems, without one fit for each row."""
