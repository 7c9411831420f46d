"""What a study found: in sentences (`prose`), and as one self-contained HTML page (`page`).

The page needs the extra ``study``, the sentences do not.
"""
