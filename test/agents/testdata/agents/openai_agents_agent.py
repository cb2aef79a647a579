"""An agent on OpenAI's Agents SDK, over either API, streamed or not, with the SDK's conversation memory."""
import asyncio
import os
import sys

from agents import Agent, Runner, SQLiteSession, function_tool, set_default_openai_api

from shell import bash

set_default_openai_api(os.environ["API"])
agent = Agent("builder", instructions="Be brief.", model="mock-model", tools=[function_tool(bash)])


async def main():
    session = SQLiteSession("1")
    for words in sys.argv[1:]:
        if os.environ.get("STREAM"):
            done = Runner.run_streamed(agent, words, session=session)
            async for _ in done.stream_events():
                pass
        else:
            done = await Runner.run(agent, words, session=session)
        print(done.final_output)


asyncio.run(main())
