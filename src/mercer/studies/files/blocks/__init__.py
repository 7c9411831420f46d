"""Tables larger than memory: they are parsed once into a folder of checked blocks, and then read block by block."""
