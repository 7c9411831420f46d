"""What every test starts from."""

from hypothesis import settings

# The same examples on every run, and no deadline: a slow machine is not a wrong result.
settings.register_profile("mercer", deadline=None, derandomize=True)
settings.load_profile("mercer")
