"""An agent on smolagents, with calls and results as text. The last step is a request without tools."""
import sys

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

from shell import bash

agent = ToolCallingAgent(tools=[tool(bash)], model=OpenAIServerModel("mock-model"), max_steps=5, verbosity_level=0)
for n, words in enumerate(sys.argv[1:]):
    print(agent.run(words, reset=n == 0))
