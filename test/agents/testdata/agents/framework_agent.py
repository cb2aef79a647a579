"""An agent on Microsoft's Agent Framework, over either API, streamed or not."""
import asyncio
import os
import sys

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

from shell import bash

Client = OpenAIChatClient if os.environ["API"] == "responses" else OpenAIChatCompletionClient


async def main():
    agent = Agent(client=Client(model="mock-model"), instructions="Be brief.", tools=[bash])
    session = agent.create_session()
    for words in sys.argv[1:]:
        if os.environ.get("STREAM"):
            stream = agent.run(words, session=session, stream=True)
            async for _ in stream:
                pass
            print((await stream.get_final_response()).text)
        else:
            print((await agent.run(words, session=session)).text)


asyncio.run(main())
