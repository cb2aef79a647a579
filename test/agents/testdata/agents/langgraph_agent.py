"""An agent on LangGraph (or, with DEEP, on deepagents), with LangGraph's conversation memory, streamed or not."""
import os
import sys

from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from shell import bash

if os.environ.get("API") == "messages":
    from langchain_anthropic import ChatAnthropic
    model = ChatAnthropic(model="mock-model", max_tokens=1000)
else:
    from langchain_openai import ChatOpenAI
    model = ChatOpenAI(model="mock-model", use_responses_api=os.environ.get("API") == "responses")
if os.environ.get("DEEP"):
    from deepagents import create_deep_agent as create_agent
else:
    from langchain.agents import create_agent
agent = create_agent(model, [tool(bash)], system_prompt="Be brief.", checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}
for words in sys.argv[1:]:
    asked = {"messages": [{"role": "user", "content": words}]}
    if os.environ.get("STREAM"):
        for _ in agent.stream(asked, thread, stream_mode="messages"):
            pass
        print(agent.get_state(thread).values["messages"][-1].text)
    else:
        print(agent.invoke(asked, thread)["messages"][-1].text)
