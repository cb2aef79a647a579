"""An agent on Pydantic AI, streamed or not, over the chat or the messages API."""
import os
import sys

from pydantic_ai import Agent

from shell import bash

model = {"chat": "openai-chat:mock-model", "responses": "openai-responses:mock-model", "messages": "anthropic:mock-model"}[os.environ["API"]]
agent = Agent(model, system_prompt="Be brief.", tools=[bash])
history = None
for words in sys.argv[1:]:
    done = agent.run_sync(words, message_history=history)
    history = done.all_messages()
    print(done.output)
