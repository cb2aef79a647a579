"""An agent on smolagents that writes code, with calls and results as text."""
import sys

from smolagents import CodeAgent, OpenAIServerModel, tool

from shell import bash

agent = CodeAgent(tools=[tool(bash)], model=OpenAIServerModel("mock-model"), max_steps=6, verbosity_level=0)
for n, words in enumerate(sys.argv[1:]):
    print(agent.run(words, reset=n == 0))
