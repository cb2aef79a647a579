"""The Python programs' shell tool."""
import os
import subprocess


def bash(command: str) -> str:
    """Run a command.

    Args:
        command: the command
    """
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=os.environ["WORK"])
    return f"{done.stdout}{done.stderr}\nExit code: {done.returncode}"
