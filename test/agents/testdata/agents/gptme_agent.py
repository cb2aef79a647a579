"""gptme, called through the command line: once per message, in one conversation."""
import os
import subprocess
import sys

import tables  # noqa: F401  for the calls below

name = f"2026-01-01-{os.getpid()}"  # the same name again would go on with that conversation

for words in sys.argv[1:]:
    done = subprocess.run([os.path.dirname(sys.executable) + "/gptme", "--non-interactive", "--name", name, "--workspace", os.environ["WORK"], "--tools", "shell",
                           "--tool-format", "tool", "--no-stream", "--model", "local/mock-model", words], check=False)
    if done.returncode:
        sys.exit(done.returncode)
