"""An agent on LangGraph, with its memory of the conversation."""
import sys

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from shell import bash

agent = create_agent(ChatOpenAI(model="mock-model"), [tool(bash)], system_prompt="Be brief.", checkpointer=InMemorySaver())
for words in sys.argv[1:]:
    done = agent.invoke({"messages": [{"role": "user", "content": words}]}, {"configurable": {"thread_id": "1"}})
    print(done["messages"][-1].content)
