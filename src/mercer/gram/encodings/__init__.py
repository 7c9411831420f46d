"""Encodings of a table that native tiles read faster than floats: bits, integers and sparse rows."""
