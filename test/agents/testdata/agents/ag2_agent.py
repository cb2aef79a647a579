"""An agent on AG2, streamed or not."""
import asyncio
import os
import sys

from ag2 import Agent, tool
from ag2.config import OpenAIConfig, OpenAIResponsesConfig

from shell import bash

Config = OpenAIResponsesConfig if os.environ["API"] == "responses" else OpenAIConfig


async def main():
    agent = Agent("builder", prompt="Be brief.", config=Config(model="mock-model", streaming=bool(os.environ.get("STREAM"))), tools=[tool(bash)])
    done = None
    for words in sys.argv[1:]:
        done = await (agent.ask(words) if done is None else done.ask(words))
        print(await done.content() if callable(done.content) else done.content)


asyncio.run(main())
