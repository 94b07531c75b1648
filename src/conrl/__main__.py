"""`python -m conrl` is `conrl`."""

from conrl.cli import main

if __name__ == "__main__":
    main(prog_name="conrl")
