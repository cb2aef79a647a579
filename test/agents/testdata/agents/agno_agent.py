"""An agent on Agno, over each API, streamed or not, with its history."""
import os
import sys

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb

from shell import bash

if os.environ["API"] == "messages":
    from agno.models.anthropic import Claude as Model
elif os.environ["API"] == "responses":
    from agno.models.openai import OpenAIResponses as Model
else:
    from agno.models.openai import OpenAIChat as Model
agent = Agent(model=Model(id="mock-model"), tools=[bash], instructions="Be brief.", db=InMemoryDb(), session_id="1",
              add_history_to_context=True, telemetry=False)
for words in sys.argv[1:]:
    if os.environ.get("STREAM"):
        print("".join(getattr(part, "content", None) or "" for part in agent.run(words, stream=True)))
    else:
        print(agent.run(words).content)
