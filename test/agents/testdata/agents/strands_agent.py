"""An agent on Strands, which streams."""
import os
import sys

from strands import Agent, tool

from shell import bash

if os.environ["API"] == "messages":
    from strands.models.anthropic import AnthropicModel
    model = AnthropicModel(model_id="mock-model", max_tokens=1000)
else:
    from strands.models.openai import OpenAIModel
    model = OpenAIModel(model_id="mock-model")
agent = Agent(model, tools=[tool(bash)], system_prompt="Be brief.", callback_handler=None)
for words in sys.argv[1:]:
    print(agent(words))
