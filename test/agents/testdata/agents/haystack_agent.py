"""An agent on Haystack, streamed or not. The program keeps the messages."""
import os
import sys

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function

from shell import bash

bash.__doc__ = "Run a command."
stream = (lambda chunk: None) if os.environ.get("STREAM") else None
agent = Agent(chat_generator=OpenAIChatGenerator(model="mock-model"), tools=[create_tool_from_function(bash)],
              system_prompt="Be brief.", streaming_callback=stream)
messages = []
for words in sys.argv[1:]:
    done = agent.run(messages=messages + [ChatMessage.from_user(words)])
    messages = [m for m in done["messages"] if m.role != "system"]
    print(done["messages"][-1].text)
