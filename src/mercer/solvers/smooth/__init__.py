"""Machines whose dual is no box-constrained quadratic: linear systems, likelihoods, descent, mistakes."""
