"""An agent on LlamaIndex."""
import asyncio
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import Memory
from llama_index.llms.openai import OpenAI

from shell import bash


async def main():
    agent = FunctionAgent(tools=[bash], llm=OpenAI(model="gpt-4.1"), system_prompt="Be brief.")
    memory = Memory.from_defaults(session_id="1", token_limit=40000)
    for words in sys.argv[1:]:
        print(await agent.run(words, memory=memory))


asyncio.run(main())
