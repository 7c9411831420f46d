"""`python -m mercer` is `mercer`."""

from mercer.cli import main

if __name__ == "__main__":
    main()
