"""Files: tables in, models in and out."""
