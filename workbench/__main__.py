"""`python -m workbench`: the command line of the Python that runs it."""
from workbench.cli import app

if __name__ == "__main__":
    app(prog_name="workbench")
