"""An agent on AutoGen, streamed or not."""
import asyncio
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

from shell import bash

info = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False, "family": "unknown"}


async def main():
    client = OpenAIChatCompletionClient(model="mock-model", model_info=info)
    agent = AssistantAgent("builder", client, tools=[bash], system_message="Be brief.", max_tool_iterations=12,
                           model_client_stream=bool(os.environ.get("STREAM")))
    for words in sys.argv[1:]:
        done = await agent.run(task=words)
        print(done.messages[-1].to_text())
    await client.close()


asyncio.run(main())
