"""A whole study on a table: its protocol, search, report and command line."""
