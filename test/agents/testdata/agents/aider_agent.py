"""aider, asked several things in one conversation. It has no tools."""
import os
import sys

os.environ["AIDER_ANALYTICS"] = "false"
from aider.coders import Coder
from aider.io import InputOutput
from aider.models import Model

coder = Coder.create(main_model=Model("openai/mock-model"), io=InputOutput(yes=True, pretty=False), fnames=["README.md"],
                     read_only_fnames=[name for name in ["CONVENTIONS.md"] if os.path.exists(name)], use_git=False,
                     stream=bool(os.environ.get("STREAM")), map_tokens=0, suggest_shell_commands=False)
for words in [sys.argv[1], "What else?", "And what is that for?", "Say it in one word.", "Once more.", *sys.argv[2:]]:
    coder.run(with_message=words)
