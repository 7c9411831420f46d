"""Tables of named columns, and the encoding that turns them into numbers."""
