"""`python -m mercer` is `mercer`."""

from mercer.studies.cli import main

if __name__ == "__main__":
    main()
