"""Files of tables: their formats, reading, and writes that are complete or have no effect."""
