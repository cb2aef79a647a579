"""A ReAct agent on DSPy: its calls and their results are text."""
import os
import sys

import dspy

from shell import bash

dspy.configure(lm=dspy.LM("openai/mock-model", api_base=os.environ["OPENAI_BASE_URL"], api_key="sk-test", cache=False))
react = dspy.ReAct("task -> answer", tools=[bash], max_iters=7)
print(react(task=sys.argv[1]).answer)
