"""How a block solver ends (mercer::BlockEnd)."""

SOLVED, LIMIT, STALLED = 0, 1, 2
