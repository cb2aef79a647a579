"""A ReAct program on DSPy, with calls and results as text."""
import os
import sys

import dspy

from shell import bash

dspy.configure(lm=dspy.LM("openai/mock-model", api_base=os.environ["OPENAI_BASE_URL"], api_key="sk-test", cache=False))
agent = dspy.ReAct("question -> answer", tools=[bash], max_iters=10)
for words in sys.argv[1:]:
    print(agent(question=words).answer)
