"""The command line: `conrl.cli.main` has the command `conrl`, the other modules what it needs."""
