"""`python -m mercer` is `mercer`."""

from mercer.study.cli import main

if __name__ == "__main__":
    main()
